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
            figures: finding
                .figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            meaning: entry.meaning.to_owned(),
            causes: entry.causes.to_owned(),
            explanation: finding.explanation.clone(),
        }
    };
    findings.iter().map(remark).collect()
}
