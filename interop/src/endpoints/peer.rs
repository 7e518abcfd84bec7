//! The programs in `interop/peers`. Each runs as `PROGRAM interop`, with the public runner's
//! environment variables.

use std::path::Path;
use std::process::Command;

use super::{Plan, Setting};

pub(super) fn server(program: &Path, setting: &Setting<'_>) -> Plan {
    let mut command = Command::new(program);
    command.arg("interop").env("ROLE", "server").env("TESTCASE", setting.test.server_case.name());
    command.env("WWW", setting.root).env("LISTEN", setting.listen.to_string());
    command.env("CERT", &setting.certificates.chain).env("KEY", &setting.certificates.key);
    if let Some(address) = setting.preferred {
        command.env("PREFERRED_ADDRESS", address.to_string());
    }
    setting.environment(&mut command, "server");
    Plan::Run(vec![command])
}

pub(super) fn client(program: &Path, setting: &Setting<'_>) -> Plan {
    let mut command = Command::new(program);
    command.arg("interop").env("ROLE", "client").env("TESTCASE", setting.test.client_case.name());
    command.env("REQUESTS", setting.urls().collect::<Vec<_>>().join(" "));
    command.env("DOWNLOADS", setting.downloads).env("CA", &setting.certificates.roots);
    command.env("CONNECT", setting.connect.to_string());
    setting.environment(&mut command, "client");
    Plan::Run(vec![command])
}
