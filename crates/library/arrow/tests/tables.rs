//! A table in memory means what the same table means as CSV, and comes out as files have it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, TimestampMillisecondArray,
};
use cavalcade::model::Workload;
use cavalcade::trace::ReadOptions;
use cavalcade::{Conditions, Error, Scenario, Watch, tables};
use cavalcade_arrow::{FlowTable, TableOptions, batch, workload};

#[path = "../examples/tables.rs"]
mod example;

type Columns<'a> = Vec<(&'a str, ArrayRef)>;

fn options() -> TableOptions<'static> {
    TableOptions { name: "flows", ..TableOptions::default() }
}

fn read(columns: Columns<'_>) -> Result<Workload, Error> {
    let flows = RecordBatch::try_from_iter(columns).expect("columns of one length are a batch");
    workload(RecordBatchIterator::new([Ok(flows.clone())], flows.schema()), &options())
}

fn flows() -> Columns<'static> {
    vec![
        ("src", Arc::new(StringArray::from(vec!["a", "b", "a"]))),
        ("dst", Arc::new(StringArray::from(vec!["c", "c", "b"]))),
        ("bytes", Arc::new(Float64Array::from(vec![1.5e6, 2e6, 3e6]))),
        ("start_s", Arc::new(Float64Array::from(vec![0.1, 0.0, 0.3]))),
        ("coflow", Arc::new(StringArray::from(vec![Some("q, 1"), None, Some("q, 1")]))),
    ]
}

const NAMES: [&str; 5] = ["src", "dst", "bytes", "start_s", "coflow"];
const CSV: &str =
    "src,dst,bytes,start_s,coflow\na,c,1500000,0.1,\"q, 1\"\nb,c,2000000,0,\na,b,3000000,0.3,\"q, 1\"\n";

#[test]
fn a_table_is_the_workload_that_the_same_csv_is() {
    let (text, _) =
        cavalcade::trace::read(CSV.as_bytes(), "flows.csv", &ReadOptions::default()).expect("a CSV of flows");
    assert_eq!(read(flows()).expect("this is a table of flows"), text);
}

#[test]
fn names_as_a_dictionary_and_times_by_type_mean_the_same() {
    let mut columns = flows();
    let hosts = |keys: Vec<i32>| {
        let values = Arc::new(StringArray::from(vec!["c", "b", "a"]));
        Arc::new(DictionaryArray::new(Int32Array::from(keys), values)) as ArrayRef
    };
    columns[0].1 = hosts(vec![2, 1, 2]);
    columns[1].1 = hosts(vec![0, 0, 1]);
    columns[3] = ("start_s", Arc::new(TimestampMillisecondArray::from(vec![100, 0, 300])));
    assert_eq!(read(columns).expect("this is a table"), read(flows()).expect("so is this"));
}

#[test]
fn rows_in_pieces_are_the_rows_in_one() {
    let flows = RecordBatch::try_from_iter(flows()).expect("columns of one length");
    let options = options();
    let mut table = FlowTable::new(&NAMES, &options).expect("all columns are there");
    (0..3).for_each(|row| table.add_batch(&flows.slice(row, 1)).expect("each row is a flow"));
    assert_eq!(table.finish().expect("three flows"), read(self::flows()).expect("the same"));
}

#[test]
fn what_is_wrong_is_named_by_row_and_column() {
    type Change = fn(&mut Columns<'_>);
    let cases: [(Change, &str); 5] = [
        (|columns| drop(columns.remove(2)), "bytes"),
        (|columns| columns[2].1 = Arc::new(Int64Array::from(vec![1, -2, 3])), "row 1"),
        (|columns| columns[2].1 = Arc::new(Float64Array::from(vec![1.0, f64::NAN, 3.0])), "row 1"),
        (|columns| columns[3].1 = Arc::new(StringArray::from(vec!["0", "1", "2"])), "start_s"),
        (|columns| columns[0].1 = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])), "row 2"),
    ];
    for (change, named) in cases {
        let mut columns = flows();
        change(&mut columns);
        let error = read(columns).expect_err("the table is wrong");
        let text = format!("{error:?} {error}");
        assert!(text.contains(named), "{text} does not name {named}");
    }
}

#[test]
fn a_table_of_no_rows_and_a_batch_of_other_columns_are_refused() {
    let (flows, options) = (RecordBatch::try_from_iter(flows()).expect("of one length"), options());
    assert!(FlowTable::new(&NAMES, &options).expect("all are there").finish().is_err());
    let more = [&NAMES[..], &["more"]].concat();
    let mut table = FlowTable::new(&more, &options).expect("all are there");
    assert!(table.add_batch(&flows).is_err());
    let mut short = FlowTable::new(&NAMES, &options).expect("all are there");
    assert!(short.add(4, &|place| Arc::clone(flows.column(place))).is_err());
}

#[test]
fn results_have_seconds_behind_each_time_in_nanoseconds() {
    let scenario = Scenario::new(read(flows()).expect("a table"), Conditions::default()).expect("a scenario");
    let outcome = scenario.under("fair").expect("it has a name").run().expect("it runs");
    let made = batch(&tables::flows(scenario.workload(), &outcome.flow_finish)).expect("it is a batch");
    let names: Vec<_> = made.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(
        names,
        ["flow", "coflow", "src", "dst", "size_bytes", "finish_ns", "finish_s", "src_host", "dst_host"]
    );
    let finish = made.column_by_name("finish_ns").expect("it has ends").as_primitive::<Int64Type>();
    let expected: Vec<i64> = outcome
        .flow_finish
        .iter()
        .map(|&end| scenario.workload().in_trace(end).expect("it fits").get() as i64)
        .collect();
    assert_eq!(finish.values(), &expected[..]);
}

#[test]
fn flows_of_a_run_that_forgot_them_have_no_end() {
    let scenario = Scenario::new(read(flows()).expect("a table"), Conditions::default()).expect("a scenario");
    let watch = Watch { forgets_flows: true, ..Watch::default() };
    let outcome = scenario.run_with(watch).expect("it runs");
    assert!(outcome.flow_finish.is_empty());
    let made = batch(&tables::flows(scenario.workload(), &outcome.flow_finish)).expect("it is a batch");
    assert_eq!((made.num_rows(), made.column_by_name("finish_ns")), (3, None));
}

#[test]
fn the_example_runs() {
    example::main().expect("the example runs");
}
