//! A workload out of a table with a row for each flow.
//!
//! A table comes in pieces, and a piece is looked at as typed columns; what is kept of a row is its
//! flow. The rules are those of a CSV ([`cavalcade::trace::csv_list`]): names of columns, hosts as
//! numbers or names, rows in any order. A number of a table means what its shortest decimal text
//! would mean in a CSV, so both give the same workload.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use cavalcade::model::{Bytes, Nanos, Workload};
use cavalcade::trace::ReadOptions;
use cavalcade::trace::flow_columns::{Chosen, Columns, names_unit};
use cavalcade::trace::flow_rows::{
    FlowRows, Group, HOST, Host, SIZE, START, size, start, whole_size, whole_start,
};
use cavalcade::{Error, Kind};

/// What is known of a table beforehand.
#[derive(Debug, Default)]
pub struct TableOptions<'a> {
    /// The name of the column for each part of a flow; a column that is not named is found by its
    /// name, as in a CSV.
    pub columns: Chosen<'a>,
    /// The unit of starts: `s`, `ms`, `us` or `ns`. Not needed where the column's type or name
    /// implies it.
    pub unit: Option<&'a str>,
    /// What sizes count: `bytes` unless given, `KB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`.
    pub size_unit: Option<&'a str>,
    /// What errors call the table.
    pub name: &'a str,
    /// The number of ports, where it is more than the hosts that send or receive; and the most that
    /// is accepted.
    pub read: ReadOptions,
}

/// The nanoseconds of a unit of a column of times, if its type implies them.
fn unit_of(kind: &DataType) -> Option<u64> {
    match kind {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => Some(match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        }),
        _ => None,
    }
}

/// The cells of a piece of a column.
enum Cells {
    Whole(Vec<i128>),
    Real(Vec<f64>),
    Text(ArrayRef),
    /// Places in a list of cells that come again and again.
    Listed(Vec<usize>, Box<Cells>),
}

/// The cells of a column of this type; `None` if the type is not supported.
fn cells(column: &ArrayRef) -> Option<Cells> {
    macro_rules! whole {
        ($kind:ty) => {
            Cells::Whole(
                column.as_primitive::<$kind>().values().iter().map(|&value| i128::from(value)).collect(),
            )
        };
    }
    Some(match column.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float32 => {
            // By way of the text: 0.1 of 32 bits is a tenth, not the 0.10000000149 that it becomes
            // in 64 bits.
            let wide = |value: &f32| value.to_string().parse().unwrap_or(f64::NAN);
            Cells::Real(column.as_primitive::<Float32Type>().values().iter().map(wide).collect())
        }
        DataType::Float64 => Cells::Real(column.as_primitive::<Float64Type>().values().to_vec()),
        DataType::Timestamp(TimeUnit::Second, _) => whole!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => whole!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => whole!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => whole!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => whole!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => whole!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => whole!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => whole!(DurationNanosecondType),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Cells::Text(Arc::clone(column)),
        DataType::Dictionary(..) => {
            let listed = column.as_any_dictionary();
            // Of a list of no values all rows are null, and none is looked up.
            let none = listed.values().is_empty();
            let places = if none { vec![0; listed.len()] } else { listed.normalized_keys() };
            Cells::Listed(places, Box::new(cells(listed.values())?))
        }
        _ => return None,
    })
}

fn text(column: &ArrayRef, row: usize) -> &str {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        _ => column.as_string_view().value(row),
    }
}

/// One cell.
enum Cell<'a> {
    Whole(i128),
    Real(f64),
    Text(&'a str),
}

impl Cells {
    fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Cells::Whole(values) => Cell::Whole(values[row]),
            Cells::Real(values) => Cell::Real(values[row]),
            Cells::Text(column) => Cell::Text(text(column, row)),
            Cells::Listed(places, cells) => cells.cell(places[row]),
        }
    }
}

/// A column by its meaning.
#[derive(Clone, Copy)]
enum Part {
    Src,
    Dst,
    Size,
    Start,
    Coflow,
}

/// Rows of flows that become a workload.
pub struct FlowTable<'o> {
    flows: FlowRows<'o>,
    options: &'o TableOptions<'o>,
    size_unit: u64,
    asked_unit: Option<u64>,
    columns: Columns,
    names: Vec<String>,
    rows: u64,
    /// Hosts and coflows that are numbers, looked up and never walked.
    hosts: HashMap<i128, Host>,
    groups: HashMap<i128, Group>,
}

impl<'o> FlowTable<'o> {
    /// A table of columns with these names, and no rows yet.
    ///
    /// # Errors
    /// If a column is missing, or a unit of the options is unknown.
    pub fn new(names: &[&str], options: &'o TableOptions<'o>) -> Result<Self, Error> {
        let asked_unit = match options.unit {
            None => None,
            Some("s") => Some(1_000_000_000),
            Some("ms") => Some(1_000_000),
            Some("us") => Some(1_000),
            Some("ns") => Some(1),
            Some(other) => {
                return Err(Error::option("unit", other, "it is no unit of starts")
                    .expected("s, ms, us or ns")
                    .help("unit=\"ms\" for milliseconds"));
            }
        };
        let size_unit = match options.size_unit {
            None | Some("bytes" | "byte") => 1,
            Some(other) => format!("1{other}").parse::<Bytes>().map(Bytes::get).map_err(|_| {
                Error::option("size_unit", other, "it is no unit of sizes")
                    .expected("bytes, KB, MB, GB, KiB, MiB or GiB")
                    .help("size_unit=\"MB\" for millions of bytes")
            })?,
        };
        let columns = Columns::find_with(names, options.columns).map_err(|problem| {
            Error::input(problem)
                .place(options.name)
                .expected("columns src, dst, bytes, start_s (or _ms, _us, _ns) and perhaps coflow")
                .help("rename the columns, or name them: source=, destination=, size=, start=, coflow=")
        })?;
        Ok(Self {
            flows: FlowRows::new(&options.read),
            options,
            size_unit,
            asked_unit,
            columns,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            rows: 0,
            hosts: HashMap::new(),
            groups: HashMap::new(),
        })
    }

    /// The places of the columns that are looked at, in ascending order.
    pub fn used(&self) -> Vec<usize> {
        let Columns { src, dst, bytes, start, coflow, .. } = self.columns;
        let mut used: Vec<usize> = [src, dst, bytes, start].into_iter().chain(coflow).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    fn place(&self, part: Part) -> Option<usize> {
        let columns = self.columns;
        match part {
            Part::Src => Some(columns.src),
            Part::Dst => Some(columns.dst),
            Part::Size => Some(columns.bytes),
            Part::Start => Some(columns.start),
            Part::Coflow => columns.coflow,
        }
    }

    fn named(&self, part: Part) -> &str {
        self.place(part).map_or("", |place| &self.names[place])
    }

    /// Adds the rows of a batch with the columns that [`new`](Self::new) was given.
    ///
    /// # Errors
    /// As [`add`](Self::add), or if it has another number of columns.
    pub fn add_batch(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let (found, named) = (batch.num_columns(), self.names.len());
        if found != named {
            return Err(Error::input(format!("a batch has {found} columns"))
                .place(self.options.name)
                .expected(format!("{named}, as the table has"))
                .help("give each batch the columns of the first"));
        }
        self.add(batch.num_rows(), &|place| Arc::clone(batch.column(place)))
    }

    /// Adds so many rows, with `column` giving the column at each place of [`used`](Self::used).
    ///
    /// # Errors
    /// If a column is of no use, has fewer rows, or a cell is wrong: the error has the row and the
    /// column. What was added before the row stays, so a table that failed is of no further use.
    pub fn add(&mut self, rows: usize, column: &dyn Fn(usize) -> ArrayRef) -> Result<(), Error> {
        let look = |part: Part| -> Result<Option<Piece>, Error> {
            let Some(place) = self.place(part) else { return Ok(None) };
            let column = column(place);
            if column.len() < rows {
                let (found, name) = (column.len(), self.named(part));
                return Err(Error::input(format!("column {name:?} has {found} rows of {rows}"))
                    .place(self.options.name)
                    .help("make all columns of one length"));
            }
            let nulls = column.logical_nulls();
            let unit = unit_of(column.data_type());
            match cells(&column) {
                Some(cells) => Ok(Some(Piece { cells, nulls, unit })),
                None => Err(self.unfit(part, &column.data_type().to_string())),
            }
        };
        let need =
            |part: Part| look(part).map(|piece| piece.expect("every column but the coflow's is there"));
        let (src, dst, sizes, starts) =
            (need(Part::Src)?, need(Part::Dst)?, need(Part::Size)?, need(Part::Start)?);
        let coflows = look(Part::Coflow)?;
        let unit = self.unit(starts.unit)?;
        for row in 0..rows {
            self.flows.room().map_err(|kind| Error::input(kind.to_string()).place(self.options.name))?;
            let (from, to) = (self.host(Part::Src, &src, row)?, self.host(Part::Dst, &dst, row)?);
            let size = self.size(&sizes, row)?;
            let start = self.start(&starts, unit, row)?;
            let group = self.group(coflows.as_ref(), row)?;
            self.flows.add(group, from, to, size, start);
            self.rows += 1;
        }
        Ok(())
    }

    /// Nanoseconds of the unit of starts: the one asked for, that of the column's type, or that of
    /// its name.
    fn unit(&self, of_type: Option<u64>) -> Result<u64, Error> {
        let name = self.named(Part::Start);
        let said = names_unit(name).then_some(self.columns.unit);
        match (self.asked_unit, of_type) {
            (_, Some(unit)) => Ok(unit),
            (Some(unit), None) if said.is_some_and(|said| said != unit) => {
                Err(Error::usage(format!("the name of column {name:?} says another unit than the one given"))
                    .place("unit")
                    .help("rename the column, or leave unit out"))
            }
            (Some(unit), None) => Ok(unit),
            (None, None) => said.ok_or_else(|| {
                let cure = "add unit=\"s\", \"ms\", \"us\" or \"ns\", or call the column start_ms";
                Error::usage(format!("the name of column {name:?} says no unit of time"))
                    .place("unit")
                    .expected("s, ms, us or ns")
                    .help(cure)
            }),
        }
    }

    fn expected(part: Part) -> &'static str {
        match part {
            Part::Src | Part::Dst => HOST,
            Part::Size => SIZE,
            Part::Start => START,
            Part::Coflow => "the name or number of a coflow, or nothing",
        }
    }

    /// Makes the error of the column at `place`, whose values are of an unsupported type.
    pub fn unfit_column(&self, place: usize, kind: &str) -> Error {
        let parts = [Part::Src, Part::Dst, Part::Size, Part::Start, Part::Coflow];
        let part = parts.into_iter().find(|&part| self.place(part) == Some(place)).unwrap_or(Part::Coflow);
        self.unfit(part, kind)
    }

    fn unfit(&self, part: Part, kind: &str) -> Error {
        let name = self.named(part);
        Error::input(format!("column {name:?} is of type {kind}"))
            .place(format!("{}, column {name}", self.options.name))
            .expected(Self::expected(part))
            .help(match part {
                Part::Src | Part::Dst | Part::Coflow => "make it a column of text or of whole numbers",
                Part::Size | Part::Start => "make it a column of numbers",
            })
    }

    fn wrong(&self, part: Part, found: &str, cure: &str) -> Error {
        let (row, name) = (self.rows, self.named(part));
        Error::new(Kind::Input, format!("{name} is {found} in row {row}"))
            .place(format!("{}, row {row}, column {name}", self.options.name))
            .expected(Self::expected(part))
            .help(cure)
    }

    fn host(&mut self, part: Part, piece: &Piece, row: usize) -> Result<Host, Error> {
        match piece.cell(row) {
            Some(Cell::Text("")) | None => {
                Err(self.wrong(part, "missing", "drop the row, or fill in the host"))
            }
            Some(Cell::Text(name)) => Ok(self.flows.host(name)),
            Some(Cell::Whole(number)) => match self.hosts.get(&number) {
                Some(&host) => Ok(host),
                None => {
                    let host = self.flows.host(&number.to_string());
                    self.hosts.insert(number, host);
                    Ok(host)
                }
            },
            Some(Cell::Real(_)) => Err(self.unfit(part, "Float64")),
        }
    }

    fn group(&mut self, piece: Option<&Piece>, row: usize) -> Result<Group, Error> {
        let Some(piece) = piece else { return Ok(self.flows.lone()) };
        let number = match piece.cell(row) {
            Some(Cell::Text("")) | None => return Ok(self.flows.lone()),
            Some(Cell::Text(name)) => return Ok(self.flows.coflow(name)),
            Some(Cell::Whole(number)) => number,
            // Whole numbers with gaps become floating point in pandas, and gaps NaN.
            Some(Cell::Real(number)) if number.is_nan() => return Ok(self.flows.lone()),
            Some(Cell::Real(number)) if number.fract() == 0.0 && number.abs() < EXACT => number as i128,
            Some(Cell::Real(number)) => {
                return Err(self.wrong(
                    Part::Coflow,
                    &number.to_string(),
                    "make it a whole number or a name",
                ));
            }
        };
        if let Some(&group) = self.groups.get(&number) {
            return Ok(group);
        }
        let group = self.flows.coflow(&number.to_string());
        self.groups.insert(number, group);
        Ok(group)
    }

    fn size(&self, piece: &Piece, row: usize) -> Result<Bytes, Error> {
        let unit = self.size_unit;
        let (found, size) = match piece.cell(row) {
            None => (None, None),
            Some(Cell::Whole(value)) => {
                (Some(value.to_string()), u64::try_from(value).ok().and_then(|size| whole_size(size, unit)))
            }
            Some(Cell::Real(value)) => {
                (Some(value.to_string()), number(value).and_then(|text| size(&text, unit)))
            }
            Some(Cell::Text(text)) => return Err(self.unfit(Part::Size, &format!("text ({text:?})"))),
        };
        size.ok_or_else(|| {
            self.wrong(
                Part::Size,
                found.as_deref().unwrap_or("missing"),
                "drop the row, or give its size; size_unit= says what sizes count",
            )
        })
    }

    fn start(&self, piece: &Piece, unit: u64, row: usize) -> Result<Nanos, Error> {
        let (found, time) = match piece.cell(row) {
            None => (None, None),
            Some(Cell::Whole(value)) => {
                (Some(value.to_string()), u64::try_from(value).ok().and_then(|time| whole_start(time, unit)))
            }
            Some(Cell::Real(value)) => {
                (Some(value.to_string()), number(value).and_then(|text| start(&text, unit)))
            }
            Some(Cell::Text(text)) => return Err(self.unfit(Part::Start, &format!("text ({text:?})"))),
        };
        time.ok_or_else(|| {
            self.wrong(
                Part::Start,
                found.as_deref().unwrap_or("missing"),
                "drop the row, or give its start; unit= says what starts count",
            )
        })
    }

    /// Makes the workload: coflows in order of arrival, hosts as ports.
    ///
    /// # Errors
    /// If there are no rows, or more than a workload holds.
    pub fn finish(self) -> Result<Workload, Error> {
        let name = self.options.name;
        self.flows.finish().map_err(|kind| Error::input(kind.to_string()).place(name))
    }
}

/// Reads a table that is there in batches of one schema.
///
/// # Errors
/// If a column is missing, a batch cannot be read, or a cell is wrong; the place is a row and a
/// column.
pub fn workload(reader: impl RecordBatchReader, options: &TableOptions<'_>) -> Result<Workload, Error> {
    let schema = reader.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut table = FlowTable::new(&names, options)?;
    for batch in reader {
        table.add_batch(&batch.map_err(|error| unread(options.name, &error))?)?;
    }
    table.finish()
}

/// Makes the error of a table that cannot be read as Arrow.
pub fn unread(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::input(format!("{name}: the table cannot be read as Arrow: {error}"))
        .expected("columns that are each of one type")
        .help("give each column one type")
}

/// Whole numbers below this are exact in floating point.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number as a CSV would have it; `None` if it is not finite.
fn number(value: f64) -> Option<String> {
    value.is_finite().then(|| value.to_string())
}

/// A piece of a column.
struct Piece {
    cells: Cells,
    nulls: Option<NullBuffer>,
    unit: Option<u64>,
}

impl Piece {
    /// The cell, unless it is missing.
    fn cell(&self, row: usize) -> Option<Cell<'_>> {
        match &self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.cells.cell(row)),
        }
    }
}
