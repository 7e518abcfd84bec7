//! The Homebrew formula, which installs the archive of a release.

use std::fs;

use super::{OF_HOMEBREW, Release, checksums};

/// Writes the formula for a release that is published at `repository`.
pub(super) fn write(release: &Release, repository: &str) -> Result<(), String> {
    let archive = format!("{}.tar.gz", release.name(OF_HOMEBREW));
    let sum = checksums::of(&release.out.join(&archive))?;
    let path = release.out.join("clearway.rb");
    let text = text(repository, &release.version, &archive, &sum);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(repository: &str, version: &str, archive: &str, sum: &str) -> String {
    let repository = repository.trim_end_matches('/');
    format!(
        r##"class Clearway < Formula
  desc "QUIC and HTTP/3 server, client, load balancer and network lab"
  homepage "{repository}"
  url "{repository}/releases/download/v{version}/{archive}"
  version "{version}"
  sha256 "{sum}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install "clearway"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/clearway.bash" => "clearway"
    zsh_completion.install "completions/_clearway"
    fish_completion.install "completions/clearway.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/clearway --version")
  end
end
"##
    )
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_formula_names_its_archive() {
        let formula =
            text("https://git.example/clearway/", "1.2.3", "clearway-1.2.3.tar.gz", "ab12");
        let url =
            "url \"https://git.example/clearway/releases/download/v1.2.3/clearway-1.2.3.tar.gz\"";
        assert!(formula.contains(url), "{formula}");
        assert!(formula.contains("sha256 \"ab12\""), "{formula}");
        assert!(formula.contains("#{bin}/clearway --version"), "{formula}");
    }
}
