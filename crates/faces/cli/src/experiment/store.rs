//! The rows of one experiment as a Parquet file that is whole at every moment.
//!
//! Parquet files are not appended to. Rows are few (hundreds) and small, so the file is written
//! again as a whole: at most every few seconds while a sweep runs, so that an interrupt costs
//! seconds of work, with the experiment's last row, and once at the sweep's end. Rows stand in the
//! order of the experiment's text, whichever run ended first: equal results are equal files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cavalcade::columns::{Column, write_parquet};
use cavalcade::output::write_file;
use cavalcade_experiment::{ALWAYS, Key, Row};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use crate::failure::Failure;

/// The longest time before a finished run is written to disk.
const PATIENCE: Duration = Duration::from_secs(3);

/// Columns in front of the figures.
const KEY: [&str; 5] = ["workload", "policy", "conditions", "seed", "coflows"];

/// The rows of one experiment.
pub(crate) struct Store {
    path: PathBuf,
    order: Vec<Key>,
    state: Mutex<State>,
}

struct State {
    rows: BTreeMap<Key, Row>,
    written: Instant,
}

impl Store {
    /// A store for the runs in `order`, with the rows that are there; rows of runs that are no more
    /// are dropped.
    pub(crate) fn new(path: PathBuf, order: Vec<Key>, rows: BTreeMap<Key, Row>) -> Self {
        let wanted: BTreeSet<&Key> = order.iter().collect();
        let rows = rows.into_iter().filter(|(key, _)| wanted.contains(key)).collect();
        Self { path, order, state: Mutex::new(State { rows, written: Instant::now() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A map of finished rows is whole after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the row of a run is there.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.state().rows.contains_key(key)
    }

    /// Keeps a row, and writes all of them now and then and when none is missing.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn keep(&self, row: Row) -> Result<(), Failure> {
        let mut state = self.state();
        state.rows.insert(row.key.clone(), row);
        if state.written.elapsed() < PATIENCE && state.rows.len() < self.order.len() {
            return Ok(());
        }
        state.written = Instant::now();
        self.write_rows(&state.rows)
    }

    /// Writes all rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        self.write_rows(&self.state().rows)
    }

    fn write_rows(&self, rows: &BTreeMap<Key, Row>) -> Result<(), Failure> {
        let rows: Vec<&Row> = self.order.iter().filter_map(|key| rows.get(key)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let text = |name: &'static str, of: fn(&Key) -> &String| {
            Column::text(name, rows.iter().map(|row| of(&row.key).clone()))
        };
        let mut columns = vec![
            text(KEY[0], |key| &key.workload),
            text(KEY[1], |key| &key.policy),
            text(KEY[2], |key| &key.conditions),
            Column::whole(KEY[3], rows.iter().map(|row| row.key.seed)),
            Column::whole(KEY[4], rows.iter().map(|row| row.coflows)),
        ];
        // What speaks of some workloads only has a column where a row has the figure, so that old
        // files stay as they are.
        let kept = |at: usize| at < ALWAYS || rows.iter().any(|row| !row.figures[at].is_nan());
        let figures = Row::columns().iter().enumerate().filter(|&(at, _)| kept(at));
        columns.extend(
            figures.map(|(at, name)| Column::real(name, rows.iter().map(move |row| row.figures[at]))),
        );
        // Parquet wants a writer that can go to another thread, which an open file is and
        // `dyn Write` is not.
        let mut bytes = Vec::new();
        write_parquet(&columns, &mut bytes).map_err(|error| Failure::file("write", &self.path, &error))?;
        write_file(&self.path, |out| out.write_all(&bytes))
    }
}

/// Reads the rows of a file; none where it is not there.
///
/// # Errors
/// If it is there and not what [`Store::write`] writes.
pub(crate) fn read_rows(path: &Path) -> Result<BTreeMap<Key, Row>, Failure> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let read = || -> Result<BTreeMap<Key, Row>, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
        let fields = reader.metadata().file_metadata().schema().get_fields();
        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
        let figures = figures(&names).ok_or_else(|| {
            let expected: Vec<&str> = KEY.iter().chain(Row::columns()).copied().collect();
            format!("its columns are {}, expected {}", names.join(", "), expected.join(", "))
        })?;
        let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
        let rows =
            rows.map(|row| row.and_then(|row| row_of(&row, &figures)).map_err(|error| error.to_string()));
        rows.map(|row| row.map(|row| (row.key.clone(), row))).collect()
    };
    read().map_err(|fault| {
        Failure::input(format!("{}: {fault}", path.display()))
            .help("remove the file, and 'cavalcade experiment run' makes it again")
    })
}

/// Returns the figure in each column behind the key; `None` where the columns are not those of a
/// file of rows.
fn figures(names: &[&str]) -> Option<Vec<usize>> {
    let own = names.strip_prefix(KEY.as_slice())?;
    let at = |name: &&str| Row::columns().iter().position(|column| column == name);
    let figures: Vec<usize> = own.iter().map(at).collect::<Option<_>>()?;
    let whole =
        figures.is_sorted() && figures.len() >= ALWAYS && figures[..ALWAYS].iter().copied().eq(0..ALWAYS);
    whole.then_some(figures)
}

fn row_of(row: &parquet::record::Row, columns: &[usize]) -> Result<Row, parquet::errors::ParquetError> {
    let text = |at| row.get_string(at).cloned();
    let whole = |at| row.get_long(at).map(i64::cast_unsigned);
    let key = Key { workload: text(0)?, policy: text(1)?, conditions: text(2)?, seed: whole(3)? };
    let mut figures = [f64::NAN; Row::columns().len()];
    for (at, &figure) in columns.iter().enumerate() {
        figures[figure] = row.get_double(KEY.len() + at)?;
    }
    Ok(Row { key, coflows: whole(4)?, figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seed: u64, figure: f64) -> Row {
        let text = |text: &str| text.to_owned();
        let key = Key { workload: text("w"), policy: text("fair"), conditions: text("c"), seed };
        let mut figures = [f64::NAN; Row::columns().len()];
        figures[0] = figure;
        Row { key, coflows: 3, figures }
    }

    #[test]
    fn rows_come_back_bit_for_bit_in_the_order_of_the_runs_and_old_ones_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        assert!(read_rows(&path).unwrap().is_empty());
        let (a, b, gone) = (row(1, 1.0 / 3.0), row(2, 1e300), row(3, 7.0));
        let old = BTreeMap::from([(gone.key.clone(), gone.clone())]);
        let store = Store::new(path.clone(), vec![a.key.clone(), b.key.clone()], old);
        assert!(!store.has(&a.key) && !store.has(&gone.key));
        store.keep(b.clone()).unwrap();
        assert!(!path.exists(), "a row is missing, and the last write was a moment ago");
        store.keep(a.clone()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let back = read_rows(&path).unwrap();
        assert_eq!(back.len(), 2);
        let bits = |row: &Row| row.figures.map(f64::to_bits);
        assert_eq!((bits(&back[&a.key]), bits(&back[&b.key])), (bits(&a), bits(&b)));
        // Read and written again, in whatever order, it is the same file.
        Store::new(path.clone(), vec![a.key, b.key], back).write().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_figure_of_some_workloads_only_has_a_column_where_a_row_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let (plain, mut urgent) = (row(1, 0.5), row(2, 0.5));
        let order = vec![plain.key.clone(), urgent.key.clone()];
        let kept = |rows: [&Row; 2]| {
            let rows = rows.map(|row| (row.key.clone(), row.clone())).into();
            Store::new(path.clone(), order.clone(), rows).write().unwrap();
            (std::fs::metadata(&path).unwrap().len(), read_rows(&path).unwrap())
        };
        let (short, back) = kept([&plain, &urgent]);
        assert!(back[&urgent.key].figures[ALWAYS].is_nan());
        urgent.figures[ALWAYS + 2] = 0.25;
        let (long, back) = kept([&plain, &urgent]);
        assert!(long > short, "a column more");
        assert_eq!(back[&urgent.key].figures[ALWAYS + 2], 0.25);
        assert!(back[&plain.key].figures[ALWAYS + 2].is_nan() && back[&urgent.key].figures[ALWAYS].is_nan());
    }

    #[test]
    fn a_file_that_holds_something_else_is_refused_with_a_cure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        std::fs::write(&path, "no parquet").unwrap();
        assert_eq!(read_rows(&path).unwrap_err().code(), 3);
        let mut bytes = Vec::new();
        write_parquet(&[Column::whole("other", [1].into_iter())], &mut bytes).unwrap();
        std::fs::write(&path, bytes).unwrap();
        assert!(read_rows(&path).unwrap_err().to_string().contains("its columns are other"));
    }
}
