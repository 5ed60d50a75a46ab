//! Tables of results as record batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use cavalcade::columns::{Column, Values};
use cavalcade::{Error, Kind};

const NANOS: f64 = 1e9;

/// The name of a column of nanoseconds in seconds.
fn seconds_name(name: &str) -> Option<String> {
    name.strip_suffix("_ns").map(|name| format!("{name}_s"))
}

/// The schema of these columns. Behind each column of nanoseconds (`_ns`) stands the same in
/// seconds (`_s`), as floating point.
pub fn schema(columns: &[Column]) -> Schema {
    let fields = columns.iter().flat_map(|column| {
        let (kind, optional) = column.kind();
        let kind = match kind {
            "int64" => DataType::Int64,
            "double" => DataType::Float64,
            "boolean" => DataType::Boolean,
            _ => DataType::Utf8,
        };
        let twin = seconds_name(column.name()).map(|name| Field::new(name, DataType::Float64, optional));
        std::iter::once(Field::new(column.name(), kind, optional)).chain(twin)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Makes a batch of columns of equal length, with the types of [`schema`].
///
/// # Errors
/// If a whole number is 2⁶³ or more, as in Parquet, or the columns are of unequal lengths.
pub fn batch(columns: &[Column]) -> Result<RecordBatch, Error> {
    let made = || -> Result<RecordBatch, ArrowError> {
        let made = columns.iter().map(arrays).collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(Arc::new(schema(columns)), made.into_iter().flatten().collect())
    };
    made().map_err(|error| Error::new(Kind::Runtime, error.to_string()))
}

/// A column as arrays: its own, and behind it the same in seconds, if it is of nanoseconds.
fn arrays(column: &Column) -> Result<Vec<ArrayRef>, ArrowError> {
    let signed = |value: u64| {
        let name = column.name();
        i64::try_from(value)
            .map_err(|_| ArrowError::ComputeError(format!("{name} has a value of 2^63 or more")))
    };
    let is_time = seconds_name(column.name()).is_some();
    let mut made: Vec<ArrayRef> = Vec::with_capacity(2);
    match column.values() {
        Values::Whole(values) => {
            let whole = values.iter().map(|&value| signed(value)).collect::<Result<Vec<i64>, _>>()?;
            made.push(Arc::new(Int64Array::from(whole)));
            if is_time {
                made.push(Arc::new(Float64Array::from_iter_values(
                    values.iter().map(|&time| time as f64 / NANOS),
                )));
            }
        }
        Values::Real(values) => {
            made.push(Arc::new(Float64Array::from(values.clone())));
            if is_time {
                made.push(Arc::new(Float64Array::from_iter_values(values.iter().map(|time| time / NANOS))));
            }
        }
        Values::Text(values) => made.push(Arc::new(StringArray::from_iter_values(values))),
        Values::OptionalWhole(values) => {
            let whole = values.iter().map(|value| value.map(signed).transpose());
            made.push(Arc::new(Int64Array::from(whole.collect::<Result<Vec<Option<i64>>, _>>()?)));
            if is_time {
                let seconds = values.iter().map(|time| time.map(|time| time as f64 / NANOS));
                made.push(Arc::new(seconds.collect::<Float64Array>()));
            }
        }
        Values::OptionalFact(values) => made.push(Arc::new(BooleanArray::from(values.clone()))),
    }
    Ok(made)
}
