//! The certificates and the files to transfer.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::chroot::Chroot;

/// The served files, by name and length.
const CONTENT: [(&str, usize); 3] = [("1k", 1_000), ("5m", 5_000_000), ("20m", 20_000_000)];
/// Number of small files that are requested concurrently.
pub(crate) const MANY: usize = 300;
/// The folder for the qlog files of `clearway serve`.
pub(crate) const QLOG: &str = "qlog";
/// The page from which a browser makes requests.
const PAGE: &str = include_str!("page.html");

/// The served folder and the certificates, all of which are in the chroot.
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    /// The folder for downloads.
    pub(crate) downloads: PathBuf,
}

impl Files {
    pub(crate) fn write(chroot: &Chroot) -> Result<Self, String> {
        let folder = chroot.shared();
        let files = Self { downloads: folder.join("downloads"), folder };
        files.write_content().map_err(|error| format!("{}: {error}", files.folder.display()))?;
        files.write_certificates().map_err(|error| format!("the certificates: {error}"))?;
        Ok(files)
    }

    /// Returns the path of a file in the folder that host and chroot share.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write_content(&self) -> std::io::Result<()> {
        let site = self.folder.join("www");
        fs::create_dir_all(site.join("many"))?;
        for (name, length) in CONTENT {
            fs::write(site.join(name), pattern(length))?;
        }
        for number in 1..=MANY {
            fs::write(site.join("many").join(number.to_string()), pattern(10_000 + number))?;
        }
        fs::write(site.join("page.html"), PAGE)
    }

    fn write_certificates(&self) -> Result<(), Box<dyn std::error::Error>> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.distinguished_name.push(DnType::CommonName, "Clearway test authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let chain = CertificateParams::new(names)?.signed_by(&key, &issuer)?.pem();
        let key = key.serialize_pem();
        fs::write(self.folder.join("ca.pem"), root)?;
        // HAProxy reads certificate and key from one file.
        fs::write(self.folder.join("both.pem"), format!("{chain}{key}"))?;
        fs::write(self.folder.join("chain.pem"), chain)?;
        fs::write(self.folder.join("key.pem"), key)?;
        Ok(())
    }

    /// Empties the folders for downloads and for the qlog files of `clearway serve`.
    pub(crate) fn clear(&self) -> Result<(), String> {
        [self.downloads.clone(), self.folder.join(QLOG)].into_iter().try_for_each(|folder| {
            // The folder may not exist yet.
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
        })
    }

    /// Returns whether the qlog files of `clearway serve` contain a text.
    pub(crate) fn serve_logged(&self, text: &str) -> bool {
        let entries = fs::read_dir(self.folder.join(QLOG)).into_iter().flatten().flatten();
        let mut logs = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        logs.any(|log| log.contains(text))
    }

    /// Compares a download with the served file.
    pub(crate) fn compare(&self, name: &str) -> Result<(), String> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let file_name = Path::new(name).file_name().unwrap_or_default();
        let downloaded = read(&self.downloads.join(file_name))?;
        let served = read(&self.folder.join("www").join(name))?;
        match downloaded == served {
            true => Ok(()),
            false => Err(format!(
                "{name} differs: {} bytes were downloaded of {}",
                downloaded.len(),
                served.len()
            )),
        }
    }

    /// Compares all small files with the served ones.
    pub(crate) fn compare_many(&self) -> Result<(), String> {
        (1..=MANY).try_for_each(|number| self.compare(&format!("many/{number}")))
    }
}

/// Returns content that each receiver can verify: byte `i` is `i % 251`.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// Describes uploaded content in the same way as the library's example: `LENGTH good` or `LENGTH
/// bad`.
pub(crate) fn verdict(content: &[u8]) -> String {
    let is_good = content.iter().enumerate().all(|(index, byte)| usize::from(*byte) == index % 251);
    format!("{} {}", content.len(), if is_good { "good" } else { "bad" })
}
