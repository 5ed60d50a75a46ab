//! A table of results, as CSV for people and scripts and as Parquet for everything that reads
//! columns.
//!
//! A column is described where it is made, and `docs/outputs.md` is written from these
//! descriptions. The end of its name says its unit: `_ns`, `_s` and `_bytes`.
//!
//! Values are exact: times are integer nanoseconds, and a ratio is written with the fewest digits
//! that read back as the same number. Both forms hold the same columns and depend on nothing but
//! the values, so equal results are equal files.

use std::io::{self, Read, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A column: its name, what it means, and a value for each row.
pub struct Column {
    name: &'static str,
    meaning: &'static str,
    values: Values,
}

/// The values of a column, one for each row.
pub enum Values {
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Ratios.
    Real(Vec<f64>),
    /// Names.
    Text(Vec<String>),
    /// Whole numbers that some rows do not have.
    OptionalWhole(Vec<Option<u64>>),
    /// What is true or false, or neither.
    OptionalFact(Vec<Option<bool>>),
}

impl Column {
    /// A column of whole numbers.
    pub fn whole(name: &'static str, values: impl Iterator<Item = u64>) -> Self {
        Self { name, meaning: "", values: Values::Whole(values.collect()) }
    }

    /// A column of ratios.
    pub fn real(name: &'static str, values: impl Iterator<Item = f64>) -> Self {
        Self { name, meaning: "", values: Values::Real(values.collect()) }
    }

    /// A column of names.
    pub fn text(name: &'static str, values: impl Iterator<Item = String>) -> Self {
        Self { name, meaning: "", values: Values::Text(values.collect()) }
    }

    /// A column of whole numbers that some rows do not have: an empty cell of CSV, a null of
    /// Parquet.
    pub fn optional_whole(name: &'static str, values: impl Iterator<Item = Option<u64>>) -> Self {
        Self { name, meaning: "", values: Values::OptionalWhole(values.collect()) }
    }

    /// A column of what is true or false, or neither: an empty cell of CSV, a null of Parquet.
    pub fn optional_fact(name: &'static str, values: impl Iterator<Item = Option<bool>>) -> Self {
        Self { name, meaning: "", values: Values::OptionalFact(values.collect()) }
    }

    /// The same, with what its values mean.
    #[must_use]
    pub fn means(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What its values mean; empty if it is not described.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// Its values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The type of its values, in Parquet's terms: `int64`, `double`, `string` or `boolean`; and
    /// whether some rows have no value.
    pub fn kind(&self) -> (&'static str, bool) {
        match self.values {
            Values::Whole(_) => ("int64", false),
            Values::Real(_) => ("double", false),
            Values::Text(_) => ("string", false),
            Values::OptionalWhole(_) => ("int64", true),
            Values::OptionalFact(_) => ("boolean", true),
        }
    }

    /// Adds the values of a column of the same kind.
    fn append(&mut self, more: Self) {
        match (&mut self.values, more.values) {
            (Values::Whole(values), Values::Whole(more)) => values.extend(more),
            (Values::Real(values), Values::Real(more)) => values.extend(more),
            (Values::Text(values), Values::Text(more)) => values.extend(more),
            (Values::OptionalWhole(values), Values::OptionalWhole(more)) => values.extend(more),
            (Values::OptionalFact(values), Values::OptionalFact(more)) => values.extend(more),
            _ => panic!("the columns called {} are of one kind", self.name),
        }
    }

    /// The number of its rows.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Whole(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::OptionalWhole(values) => values.len(),
            Values::OptionalFact(values) => values.len(),
        }
    }

    fn cell(&self, row: usize) -> String {
        match &self.values {
            Values::Whole(values) => values[row].to_string(),
            Values::Real(values) => values[row].to_string(),
            Values::Text(values) => values[row].clone(),
            Values::OptionalWhole(values) => values[row].map_or_else(String::new, |value| value.to_string()),
            Values::OptionalFact(values) => values[row].map_or_else(String::new, |value| value.to_string()),
        }
    }

    fn declaration(&self) -> String {
        match self.values {
            Values::Whole(_) => format!("required int64 {};", self.name),
            Values::Real(_) => format!("required double {};", self.name),
            Values::Text(_) => format!("required binary {} (STRING);", self.name),
            Values::OptionalWhole(_) => format!("optional int64 {};", self.name),
            Values::OptionalFact(_) => format!("optional boolean {};", self.name),
        }
    }
}

/// Puts tables of the same columns one below the other, behind a column of this name and
/// meaning that holds the name of each.
pub fn stacked<'a>(
    (name, meaning): (&'static str, &'static str),
    tables: impl IntoIterator<Item = (&'a str, Vec<Column>)>,
) -> Vec<Column> {
    below(tables.into_iter().map(|(label, table)| {
        let rows = table.first().map_or(0, Column::rows);
        let labels = Column::text(name, std::iter::repeat_n(label.to_owned(), rows)).means(meaning);
        std::iter::once(labels).chain(table).collect()
    }))
}

/// Puts tables of the same columns one below the other.
pub fn below(tables: impl IntoIterator<Item = Vec<Column>>) -> Vec<Column> {
    let mut whole: Vec<Column> = Vec::new();
    for table in tables {
        if whole.is_empty() {
            whole = table;
        } else {
            whole.iter_mut().zip(table).for_each(|(column, more)| column.append(more));
        }
    }
    whole
}

/// Writes the columns, which are of equal length, as CSV with a header.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_csv(columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.iter().map(|column| column.name))?;
    for row in 0..columns.first().map_or(0, Column::rows) {
        writer.write_record(columns.iter().map(|column| column.cell(row)))?;
    }
    writer.flush()
}

/// Writes the columns, which are of equal length, as one row group of Parquet.
///
/// # Errors
/// If `out` cannot be written, or a whole number is 2⁶³ or more: the format's are signed, so that
/// every reader knows them.
pub fn write_parquet(columns: &[Column], out: &mut (dyn Write + Send)) -> io::Result<()> {
    let attempt = || {
        let fields: Vec<String> = columns.iter().map(Column::declaration).collect();
        let schema = parse_message_type(&format!("message results {{ {} }}", fields.join(" ")))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_created_by(concat!("cavalcade ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for column in columns {
            write_column(column, &mut group)?;
        }
        group.close()?;
        file.close()?;
        Ok::<(), ParquetError>(())
    };
    attempt().map_err(io::Error::other)
}

fn write_column<W: Write + Send>(
    column: &Column,
    group: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".to_owned()));
    };
    match &column.values {
        Values::Whole(values) => {
            let signed = signed(column.name, values.iter().copied())?;
            writer.typed::<Int64Type>().write_batch(&signed, None, None)?
        }
        Values::OptionalWhole(values) => {
            let signed = signed(column.name, values.iter().flatten().copied())?;
            writer.typed::<Int64Type>().write_batch(&signed, Some(&levels(values)), None)?
        }
        Values::OptionalFact(values) => {
            let facts: Vec<bool> = values.iter().flatten().copied().collect();
            writer.typed::<BoolType>().write_batch(&facts, Some(&levels(values)), None)?
        }
        Values::Real(values) => writer.typed::<DoubleType>().write_batch(values, None, None)?,
        Values::Text(values) => {
            let bytes: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&bytes, None, None)?
        }
    };
    writer.close()
}

/// For each row whether it has a value, as Parquet takes it.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

fn signed(name: &str, values: impl Iterator<Item = u64>) -> Result<Vec<i64>, ParquetError> {
    let signed: Result<Vec<i64>, _> = values.map(i64::try_from).collect();
    signed
        .map_err(|_| ParquetError::General(format!("{name} has a value of 2^63 or more, which does not fit")))
}

/// Reads the columns called `names`, of whole numbers, out of a CSV that [`write_csv`] wrote.
///
/// # Errors
/// A problem with its line, in words.
pub fn read_whole<const N: usize>(input: impl Read, names: [&str; N]) -> Result<[Vec<u64>; N], String> {
    let mut reader = csv::Reader::from_reader(input);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        let found = header.iter().position(|column| column == name);
        *place = found.ok_or_else(|| format!("line 1: no column {name}"))?;
    }
    let mut columns = [const { Vec::new() }; N];
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        for ((column, &place), name) in columns.iter_mut().zip(&places).zip(names) {
            let text = record.get(place).unwrap_or_default();
            let line = record.position().map_or(0, csv::Position::line);
            let value = text
                .parse()
                .map_err(|_| format!("line {line}: {name} is '{text}', expected a whole number"))?;
            column.push(value);
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    #[test]
    fn what_some_rows_do_not_have_is_an_empty_cell_and_a_null() {
        let columns = [
            Column::optional_whole("deadline_ns", [Some(5), None, Some(0)].into_iter()),
            Column::optional_fact("deadline_met", [Some(true), None, Some(false)].into_iter()),
        ];
        let mut text = Vec::new();
        write_csv(&columns, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "deadline_ns,deadline_met\n5,true\n,\n0,false\n");
        let mut bytes = Vec::new();
        write_parquet(&columns, &mut bytes).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            [
                "{deadline_ns: 5, deadline_met: true}",
                "{deadline_ns: null, deadline_met: null}",
                "{deadline_ns: 0, deadline_met: false}"
            ]
        );
    }

    fn table() -> [Column; 3] {
        [
            Column::whole("finish_ns", [0, 7, (1 << 63) - 1].into_iter()),
            Column::real("slowdown", [1.0, 1.0 / 3.0, 1e300].into_iter()),
            Column::text(
                "name",
                ["plain", "with, comma", "with \"quotes\"\nand a line"].map(String::from).into_iter(),
            ),
        ]
    }

    #[test]
    fn csv_gives_back_whole_numbers_beside_any_name() {
        let mut bytes = Vec::new();
        write_csv(&table(), &mut bytes).unwrap();
        assert!(bytes.starts_with(b"finish_ns,slowdown,name\n0,1,plain\n7,0.3333333333333333,"));
        let [finish] = read_whole(&bytes[..], ["finish_ns"]).unwrap();
        assert_eq!(finish, [0, 7, (1 << 63) - 1]);
    }

    #[test]
    fn parquet_gives_back_every_value() {
        let mut bytes = Vec::new();
        write_parquet(&table(), &mut bytes).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2].get_long(0).unwrap(), i64::MAX);
        assert_eq!(rows[1].get_double(1).unwrap(), 1.0 / 3.0);
        assert_eq!(rows[2].get_string(2).unwrap(), "with \"quotes\"\nand a line");
    }

    #[test]
    fn a_missing_column_and_a_cell_that_is_no_number_are_named() {
        assert_eq!(read_whole(&b"a,b\n1,2\n"[..], ["c"]).unwrap_err(), "line 1: no column c");
        let fault = read_whole(&b"a,b\n1,2\n3,x\n"[..], ["b"]).unwrap_err();
        assert_eq!(fault, "line 3: b is 'x', expected a whole number");
    }
}
