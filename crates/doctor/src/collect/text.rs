//! Parsers for the text files of `/proc` and of cgroups, as pure functions.

use std::collections::BTreeMap;

use super::files::Malformed;
use crate::snapshot::{Counters, SoftnetCpu, Throttling};

type Parsed<T> = Result<T, Malformed>;

/// Parses `snmp` and `netstat`: pairs of lines with the same prefix, the first with the counters'
/// names and the second with their values. A negative value is not a counter: it means that there
/// is no limit.
pub(super) fn pairs(text: &str) -> Parsed<BTreeMap<String, Counters>> {
    let mut groups = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(names) = lines.next() {
        let values = lines.next().ok_or_else(|| Malformed::of(names))?;
        let (group, names) = names.split_once(':').ok_or_else(|| Malformed::of(names))?;
        let malformed = || Malformed::of(values);
        let rest = values.strip_prefix(group).and_then(|rest| rest.strip_prefix(':'));
        let mut found = rest.ok_or_else(malformed)?.split_whitespace();
        let counters = groups.entry(group.to_owned()).or_insert_with(Counters::new);
        for name in names.split_whitespace() {
            let value = found.next().ok_or_else(malformed)?;
            match value.parse::<u64>() {
                Ok(value) => drop(counters.insert(name.to_owned(), value)),
                Err(_) if value.parse::<i64>().is_ok() => {}
                Err(_) => return Err(malformed()),
            }
        }
        if found.next().is_some() {
            return Err(malformed());
        }
    }
    match groups.is_empty() {
        true => Err(Malformed::because("the file is empty")),
        false => Ok(groups),
    }
}

/// Parses `snmp6`: each line has a name and a value.
pub(super) fn lines(text: &str) -> Parsed<Counters> {
    let line = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().map(|text| line(text).ok_or_else(|| Malformed::of(text))).collect()
}

/// Parses `softnet_stat`: a line of hexadecimal numbers for each online CPU. Since Linux 5.10, the
/// line also contains the CPU's number.
pub(super) fn softnet(text: &str) -> Parsed<Vec<SoftnetCpu>> {
    let line = |(place, line): (usize, &str)| {
        let malformed = || Malformed::of(line);
        let hexadecimal = |word| u64::from_str_radix(word, 16).map_err(|_| malformed());
        let columns: Vec<u64> =
            line.split_whitespace().map(hexadecimal).collect::<Result<_, _>>()?;
        let [processed, dropped, time_squeezed, .., flow_limited] =
            *columns.get(..11).ok_or_else(malformed)?
        else {
            return Err(malformed());
        };
        let cpu = columns.get(12).copied().unwrap_or(place as u64);
        let cpu = u32::try_from(cpu).map_err(|_| malformed())?;
        let queued = columns.get(11).copied();
        Ok(SoftnetCpu { cpu, processed, dropped, time_squeezed, flow_limited, queued })
    };
    let cpus: Vec<_> = text.lines().enumerate().map(line).collect::<Result<_, _>>()?;
    match cpus.is_empty() {
        true => Err(Malformed::because("there is no line for any CPU")),
        false => Ok(cpus),
    }
}

/// Parses the number of memory pages that UDP sockets use, from `sockstat`.
pub(super) fn udp_pages(text: &str) -> Parsed<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("UDP:"));
    let mut words = line.ok_or_else(|| Malformed::of(text))?.split_whitespace();
    let value = words.find(|word| *word == "mem").and_then(|_| words.next());
    value.and_then(|value| value.parse().ok()).ok_or_else(|| Malformed::of(text))
}

/// Parses a line with three numbers, such as `udp_mem`.
pub(super) fn three(text: &str) -> Parsed<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| Malformed::of(text))
}

/// Parses `stat/nf_conntrack`: a line of names, then a line of hexadecimal numbers for each CPU.
/// The numbers are summed, except for the number of entries, which every line repeats.
pub(super) fn conntrack(text: &str) -> Parsed<Counters> {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default();
    let names: Vec<_> = names.split_whitespace().collect();
    if names.first() != Some(&"entries") {
        return Err(Malformed::of(text));
    }
    let mut counters = Counters::new();
    for line in lines {
        let mut values = line.split_whitespace();
        for name in &names {
            let value = values.next().and_then(|value| u64::from_str_radix(value, 16).ok());
            let value = value.ok_or_else(|| Malformed::of(line))?;
            let sum = counters.entry((*name).to_owned()).or_default();
            *sum = match *name {
                "entries" => value,
                _ => sum.saturating_add(value),
            };
        }
    }
    match counters.is_empty() {
        true => Err(Malformed::because("there is no line for any CPU")),
        false => Ok(counters),
    }
}

/// Parses the time, in microseconds, during which some task waited for a CPU, from `pressure/cpu`.
pub(super) fn pressure(text: &str) -> Parsed<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "));
    let total =
        line.and_then(|line| line.split_whitespace().find_map(|it| it.strip_prefix("total=")));
    total.and_then(|total| total.parse().ok()).ok_or_else(|| Malformed::of(text))
}

/// Parses a cgroup's `cpu.stat` (version 2 or 1). Returns `None` if its CPU time is unlimited.
pub(super) fn throttling(text: &str) -> Parsed<Option<Throttling>> {
    let counters = lines(text)?;
    let value = |name: &str| counters.get(name).copied();
    let (Some(periods), Some(throttled)) = (value("nr_periods"), value("nr_throttled")) else {
        return Ok(None);
    };
    let nanoseconds = value("throttled_time").map(|time| time / 1000);
    let microseconds = value("throttled_usec").or(nanoseconds);
    let throttled_microseconds = microseconds.ok_or_else(|| Malformed::of(text))?;
    let throttling = Throttling { periods, throttled, throttled_microseconds };
    Ok((periods > 0).then_some(throttling))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
