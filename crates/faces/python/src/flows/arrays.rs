//! Columns by name: a dictionary of arrays or lists, a record array of NumPy, a pandas frame
//! without PyArrow.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DurationNanosecondArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    UInt64Array,
};
use cavalcade::Error;
use cavalcade_arrow::{FlowTable, TableOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PySlice, PyString};

use super::PIECE;
use crate::errors::Raise as _;

/// Reads a table whose columns are asked for by name.
///
/// # Errors
/// If it is no table, or holds what a trace cannot.
pub(crate) fn read<'o>(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    options: &'o TableOptions<'o>,
) -> PyResult<FlowTable<'o>> {
    let names = names(table)?;
    let found: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut flows = FlowTable::new(&found, options).or_raise(py)?;
    let columns: Vec<Option<Bound<'_, PyAny>>> = {
        let used = flows.used();
        let column =
            |(place, name): (usize, &String)| used.contains(&place).then(|| column(table, name)).transpose();
        names.iter().enumerate().map(column).collect::<PyResult<_>>()?
    };
    let lengths: Vec<(&str, usize)> = names
        .iter()
        .zip(&columns)
        .filter_map(|(name, column)| Some((name.as_str(), column.as_ref()?)))
        .map(|(name, column)| match column.len() {
            Ok(length) => Ok((name, length)),
            Err(_) => {
                let kind = column.get_type().name()?;
                let error = Error::input(format!("column {name:?} is of type {kind}"));
                Err(error.expected("a list or an array").help("pass one value for each flow")).or_raise(py)
            }
        })
        .collect::<PyResult<_>>()?;
    let rows = lengths.first().map_or(0, |(_, length)| *length);
    if lengths.iter().any(|(_, length)| *length != rows) {
        let said: Vec<String> = lengths.iter().map(|(name, length)| format!("{name} has {length}")).collect();
        let problem = format!("the columns are of unequal lengths: {}", said.join(", "));
        return Err(Error::input(problem)
            .expected("a value in each column for each row")
            .help("make all columns of one length"))
        .or_raise(py);
    }
    let mut from = 0;
    while from < rows {
        let count = PIECE.min(rows - from);
        let mut pieces: Vec<Option<ArrayRef>> = Vec::with_capacity(columns.len());
        for (place, column) in columns.iter().enumerate() {
            let piece = column.as_ref().map(|column| piece(column, from, count));
            let piece =
                piece.transpose()?.map(|piece| piece.map_err(|kind| flows.unfit_column(place, &kind)));
            pieces.push(piece.transpose().or_raise(py)?);
        }
        let column = |place: usize| pieces[place].clone().expect("every column that is used is there");
        py.detach(|| flows.add(count, &column)).or_raise(py)?;
        py.check_signals()?;
        from += count;
    }
    Ok(flows)
}

/// The names of the columns.
fn names(table: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(table) = table.cast::<PyDict>() {
        let named = table.keys().extract();
        return named.map_err(|_| PyTypeError::new_err("the names of columns are text, and these are not"));
    }
    if table.hasattr("collect")? {
        let kind = table.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a {kind} is a table that is not made yet: call its collect()"
        )));
    }
    // A frame has `columns`, a record array `dtype.names`, and any other mapping `keys()`.
    if let Some(columns) = table.getattr_opt("columns")? {
        return columns.call_method0("tolist").unwrap_or(columns).extract();
    }
    if let Some(kind) = table.getattr_opt("dtype")?
        && let Some(names) = kind.getattr_opt("names")?
        && !names.is_none()
    {
        return names.extract();
    }
    if table.hasattr("keys")? {
        return table.call_method0("keys")?.try_iter()?.map(|name| name?.extract()).collect();
    }
    let kind = table.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "expected a table of pandas, Polars or Arrow, or a dictionary of arrays, found {kind}"
    )))
}

/// A column as a list or an array of one dimension.
fn column<'py>(table: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let column = table.get_item(name)?;
    let column = if column.hasattr("to_numpy")? { column.call_method0("to_numpy")? } else { column };
    let dimensions: usize = column.getattr_opt("ndim")?.map_or(Ok(1), |found| found.extract())?;
    if dimensions != 1 {
        let error = Error::input(format!("column {name:?} has {dimensions} dimensions"))
            .expected("one value for each flow")
            .help("pass an array of one dimension");
        return Err(error).or_raise(table.py());
    }
    Ok(column)
}

/// Rows of a column as an array of Arrow; in the inner error what type it is of, if that is of no
/// use.
fn piece(column: &Bound<'_, PyAny>, from: usize, count: usize) -> PyResult<Result<ArrayRef, String>> {
    let py = column.py();
    let slice = PySlice::new(py, from as isize, (from + count) as isize, 1);
    let rows = column.get_item(slice)?;
    let Some(dtype) = rows.getattr_opt("dtype")? else { return listed(&rows) };
    let kind: String = dtype.getattr("kind")?.extract()?;
    let bytes = |rows: &Bound<'_, PyAny>, to: &str| -> PyResult<Vec<[u8; 8]>> {
        let raw = rows.call_method1("astype", (to,))?.call_method0("tobytes")?;
        let raw = raw.cast_into::<PyBytes>()?;
        Ok(raw.as_bytes().as_chunks::<8>().0.to_vec())
    };
    let whole = |to: &str| -> PyResult<Vec<i64>> {
        // By way of nanoseconds, where it is a time.
        let rows = if to == "<i8" { rows.clone() } else { rows.call_method1("astype", (to,))? };
        Ok(bytes(&rows, "<i8")?.into_iter().map(i64::from_le_bytes).collect())
    };
    // NumPy's time that is none.
    let times = |values: Vec<i64>| values.into_iter().map(|time| (time != i64::MIN).then_some(time));
    Ok(Ok(match kind.as_str() {
        "i" => Arc::new(Int64Array::from(whole("<i8")?)),
        "u" => {
            let values = bytes(&rows, "<u8")?.into_iter().map(u64::from_le_bytes);
            Arc::new(UInt64Array::from_iter_values(values))
        }
        "f" if dtype.getattr("itemsize")?.extract::<usize>()? < 8 => {
            // By way of the text: 0.1 of 32 bits is a tenth.
            let values = rows.call_method0("tolist")?.try_iter()?.map(|value| value?.extract::<f64>());
            let narrow = |value: PyResult<f64>| Ok((value? as f32).to_string().parse().unwrap_or(f64::NAN));
            Arc::new(Float64Array::from(values.map(narrow).collect::<PyResult<Vec<f64>>>()?))
        }
        "f" => {
            let values = bytes(&rows, "<f8")?.into_iter().map(f64::from_le_bytes);
            Arc::new(Float64Array::from_iter_values(values))
        }
        "M" => Arc::new(TimestampNanosecondArray::from_iter(times(whole("datetime64[ns]")?))),
        "m" => Arc::new(DurationNanosecondArray::from_iter(times(whole("timedelta64[ns]")?))),
        "U" | "O" => return listed(&rows.call_method0("tolist")?),
        _ => return Ok(Err(dtype.str()?.to_string())),
    }))
}

/// A list of values of one type, or of none.
fn listed(rows: &Bound<'_, PyAny>) -> PyResult<Result<ArrayRef, String>> {
    enum Found {
        Nothing,
        Whole,
        Real,
        Text,
    }
    let values: Vec<Bound<'_, PyAny>> = rows.try_iter()?.collect::<PyResult<_>>()?;
    let mut found = Found::Nothing;
    for value in &values {
        found = match found {
            found if value.is_none() => found,
            Found::Nothing | Found::Text if value.is_instance_of::<PyString>() => Found::Text,
            Found::Nothing | Found::Whole if value.is_exact_instance_of::<PyInt>() => Found::Whole,
            Found::Real if value.is_exact_instance_of::<PyInt>() => Found::Real,
            Found::Nothing | Found::Whole | Found::Real if value.is_instance_of::<PyFloat>() => Found::Real,
            Found::Nothing => return Ok(Err(value.get_type().name()?.to_string())),
            _ => return Ok(Err(format!("several kinds ({} among others)", value.get_type().name()?))),
        };
    }
    macro_rules! array {
        ($kind:ty, $of:ty) => {{
            let read =
                |value: &Bound<'_, PyAny>| (!value.is_none()).then(|| value.extract::<$of>()).transpose();
            let values = values.iter().map(read);
            Arc::new(<$kind>::from_iter(values.collect::<PyResult<Vec<Option<$of>>>>()?)) as ArrayRef
        }};
    }
    Ok(Ok(match found {
        Found::Nothing | Found::Whole => match array_of_whole(&values)? {
            Some(array) => array,
            None => return Ok(Err("whole numbers beyond 64 bits".to_owned())),
        },
        Found::Real => array!(Float64Array, f64),
        Found::Text => array!(StringArray, String),
    }))
}

/// Whole numbers that fit into 64 bits, with a sign or without.
fn array_of_whole(values: &[Bound<'_, PyAny>]) -> PyResult<Option<ArrayRef>> {
    let read = |value: &Bound<'_, PyAny>| (!value.is_none()).then(|| value.extract::<i128>()).transpose();
    let Ok(whole) = values.iter().map(read).collect::<PyResult<Vec<Option<i128>>>>() else { return Ok(None) };
    if whole.iter().flatten().all(|&value| i64::try_from(value).is_ok()) {
        return Ok(Some(Arc::new(Int64Array::from_iter(
            whole.iter().map(|value| value.map(|value| value as i64)),
        ))));
    }
    if whole.iter().flatten().all(|&value| u64::try_from(value).is_ok()) {
        return Ok(Some(Arc::new(UInt64Array::from_iter(
            whole.iter().map(|value| value.map(|value| value as u64)),
        ))));
    }
    Ok(None)
}
