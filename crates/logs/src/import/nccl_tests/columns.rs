//! Which columns a table has, from its header line.
//! Not the rows.

/// The columns of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Columns {
    /// Columns of one placement.
    pub width: usize,
    /// Places of time, algbw and busbw in a placement.
    pub time: usize,
    pub algbw: usize,
    pub busbw: usize,
    /// Place of `#wrong` or `error`.
    pub wrong: Option<usize>,
    /// That column is a largest difference (`error`, `res`), not a number of elements.
    pub difference: bool,
    /// Whether there is a root column; unknown without a header.
    pub root: Option<bool>,
    /// Columns between those of the operation and the figures, such as rccl-tests' algorithm.
    pub lead: usize,
    /// Placements; unknown without a header.
    pub placements: Option<usize>,
    /// Times are milliseconds (before nccl-tests 2.0).
    pub milliseconds: bool,
}

impl Default for Columns {
    /// Without a header: what most versions print.
    fn default() -> Self {
        Columns {
            width: 4,
            time: 0,
            algbw: 1,
            busbw: 2,
            wrong: Some(3),
            difference: false,
            root: None,
            lead: 0,
            placements: None,
            milliseconds: false,
        }
    }
}

impl Columns {
    /// The columns of a placement, of a row with so many figures: without a header, twice what is usual
    /// are those of `-I`.
    pub(super) fn width_of(&self, figures: usize) -> usize {
        let wide = self.placements.is_none() && matches!(figures, 16 | 18);
        if wide { 8 } else { self.width }
    }

    /// Reads `# size count type redop root time algbw busbw #wrong time …`, of any version.
    pub(in super::super) fn read(line: &str) -> Option<Columns> {
        if !line.contains("algbw") || !line.contains("busbw") {
            return None;
        }
        let names: Vec<&str> =
            line.split_ascii_whitespace().filter(|name| !matches!(*name, "|" | "&")).collect();
        let old = names.contains(&"bytes") && names.contains(&"res");
        let time = |name: &&&str| matches!(**name, "time" | "cputime");
        let first = names.iter().position(|name| matches!(*name, "time" | "cputime"))?;
        let lead = names.get(..first)?;
        let modern = ["size", "count"].iter().all(|name| lead.contains(name));
        if !(old || modern) {
            return None;
        }
        let half: Vec<&str> = names
            .get(first..)?
            .iter()
            .enumerate()
            .take_while(|(at, name)| **name != "timestamp" && (*at == 0 || !time(name)))
            .map(|(_, name)| *name)
            .collect();
        let figures = names.get(first..)?.iter().filter(|name| **name != "timestamp").count();
        let last = lead.iter().rposition(|name| {
            matches!(*name, "size" | "count" | "type" | "redop" | "op" | "root" | "N")
        });
        let at = |wanted: &[&str]| half.iter().position(|name| wanted.contains(name));
        Some(Columns {
            width: half.len(),
            time: 0,
            algbw: at(&["algbw"])?,
            busbw: at(&["busbw"])?,
            wrong: at(&["#wrong", "error", "res"]),
            difference: at(&["error", "res"]).is_some(),
            root: Some(lead.contains(&"root")),
            lead: lead.len() - last.map_or(lead.len(), |at| at + 1),
            placements: Some(if figures >= half.len() * 2 { 2 } else { 1 }),
            milliseconds: old,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_version() {
        let modern = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ";
        let columns = Columns { root: Some(true), placements: Some(2), ..Columns::default() };
        assert_eq!(Columns::read(modern), Some(columns.clone()));
        assert_eq!(Columns::read(&format!("0: {modern} timestamp")), Some(columns.clone()));
        assert_eq!(Columns::read(&modern.replace("   time", "cputime")), Some(columns.clone()));
        let old = "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error";
        let columns = Columns { root: Some(false), difference: true, ..columns };
        assert_eq!(Columns::read(old), Some(columns.clone()));
        let ancient = "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res";
        assert_eq!(Columns::read(ancient), Some(Columns { milliseconds: true, ..columns }));
        let iterations = "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv%";
        assert_eq!(Columns::read(iterations).map(|c| c.width), Some(8));
        let chosen = modern.replace("root", "root algo proto nchannels");
        assert_eq!(Columns::read(&chosen).map(|c| (c.lead, c.width)), Some((3, 4)));
        let one = "# size count type redop root time algbw busbw #wrong";
        assert_eq!(Columns::read(one).map(|c| (c.placements, c.lead)), Some((Some(1), 0)));
        assert_eq!(Columns::read("algbw and busbw are explained in PERFORMANCE.md"), None);
    }
}
