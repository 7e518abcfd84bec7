//! Findings, as the page lists them.

use clearway_qlog::findings::Finding;
use clearway_qlog::model::Remark;

pub(super) fn remarks(findings: &[Finding]) -> Vec<Remark> {
    let remark = |finding: &Finding| {
        let entry = finding.id.entry();
        Remark {
            id: entry.name.to_owned(),
            title: entry.title.to_owned(),
            severity: finding.severity,
            begin: finding.begin,
            end: finding.end,
            explanation: finding.explanation.clone(),
        }
    };
    findings.iter().map(remark).collect()
}
