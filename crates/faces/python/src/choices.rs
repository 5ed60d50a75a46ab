//! Policies, transports, fabrics and generators by name, with what the registries say of them.

use cavalcade::model::FabricSpec;
use cavalcade::policy::PolicyInfo;
use cavalcade::spec::ParameterInfo;
use cavalcade::trace::Generator;
use cavalcade::transport::{Definition, Visitor};
use cavalcade::{Error, Policy};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyType};

use crate::errors::Raise as _;

/// A parameter of a policy, transport or generator.
#[pyclass(frozen, module = "cavalcade", get_all)]
#[derive(Clone)]
pub(crate) struct Parameter {
    /// Its name.
    name: String,
    /// Its value unless it is set.
    default: String,
    /// What it may be.
    expected: String,
    /// What it is.
    meaning: String,
}

#[pymethods]
impl Parameter {
    fn __repr__(&self) -> String {
        format!("{}={}: {} ({})", self.name, self.default, self.meaning, self.expected)
    }
}

impl From<&ParameterInfo> for Parameter {
    fn from(info: &ParameterInfo) -> Self {
        Self {
            name: info.name.to_owned(),
            default: info.value.clone(),
            expected: info.expected.to_string(),
            meaning: info.meaning.to_owned(),
        }
    }
}

/// A policy, transport or generator: what it is called, what it is, and its parameters.
#[pyclass(frozen, module = "cavalcade", get_all)]
pub(crate) struct Description {
    /// Its name.
    name: String,
    /// What it is, in a line.
    title: String,
    /// The paper that it is from, where it is a paper's.
    paper: Option<String>,
    /// Whether a policy is told sizes; None for anything else.
    told_sizes: Option<bool>,
    /// Its parameters.
    parameters: Vec<Parameter>,
}

#[pymethods]
impl Description {
    fn __repr__(&self) -> String {
        let paper = self.paper.as_ref().map_or_else(String::new, |paper| format!(" ({paper})"));
        let sizes = match self.told_sizes {
            Some(true) => ", told sizes",
            Some(false) => ", not told sizes",
            None => "",
        };
        let parameters: Vec<String> =
            self.parameters.iter().map(|one| format!("\n    {}", one.__repr__())).collect();
        format!("{}: {}{paper}{sizes}{}", self.name, self.title, parameters.concat())
    }
}

impl From<&PolicyInfo> for Description {
    fn from(info: &PolicyInfo) -> Self {
        Self {
            name: info.name.to_owned(),
            title: info.title.to_owned(),
            paper: info.paper.map(|paper| format!("{}, {} {}", paper.system, paper.venue, paper.year)),
            told_sizes: Some(info.clairvoyant),
            parameters: info.parameters.iter().map(Parameter::from).collect(),
        }
    }
}

/// All policies, those of papers under their own names.
#[pyfunction]
pub(crate) fn policies() -> Vec<Description> {
    cavalcade::policy::registry().iter().map(Description::from).collect()
}

/// Asks a transport what it is.
struct Title;

impl Visitor for Title {
    type Output = &'static str;

    fn visit<T: Definition>(self, _: &T) -> &'static str {
        T::TITLE
    }
}

/// All transports of the packet engine.
#[pyfunction]
pub(crate) fn transports() -> Vec<Description> {
    let describe = |transport: &cavalcade::transport::Configured| Description {
        name: transport.name().to_owned(),
        title: transport.visit(Title).to_owned(),
        paper: None,
        told_sizes: None,
        parameters: transport.parameters().iter().map(Parameter::from).collect(),
    };
    cavalcade::transport::registry().iter().map(describe).collect()
}

/// All generators of workloads.
#[pyfunction]
pub(crate) fn generators() -> Vec<Description> {
    let describe = |info: cavalcade::trace::generate::GeneratorInfo| Description {
        name: info.name.to_owned(),
        title: info.meaning.to_owned(),
        paper: None,
        told_sizes: None,
        parameters: info.parameters.iter().map(Parameter::from).collect(),
    };
    Generator::catalogue().into_iter().map(describe).collect()
}

/// The text of a name with settings: `dclas:queues=20`.
fn spec(name: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    let mut text = name.to_owned();
    for (index, (key, value)) in settings.into_iter().flatten().enumerate() {
        let value = match value.cast::<PyBool>() {
            Ok(fact) => fact.is_true().to_string(),
            Err(_) => value.str()?.to_string(),
        };
        let between = if index == 0 && !name.contains(':') { ':' } else { ',' };
        text.push(between);
        text.push_str(&format!("{}={value}", key.extract::<String>()?));
    }
    Ok(text)
}

/// A policy of the registry with its parameters set; `str()` is the text that names it.
#[pyclass(frozen, module = "cavalcade", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct NamedPolicy {
    pub(crate) text: String,
    name: String,
    parameters: Vec<(String, String)>,
    told_sizes: bool,
}

impl NamedPolicy {
    fn read(text: &str) -> Result<Self, Error> {
        let policy = Policy::named(text)?;
        let told_sizes = policy.registered().is_none_or(|policy| policy.knows_sizes());
        Ok(Self {
            text: policy.label().to_owned(),
            name: policy.name().to_owned(),
            parameters: policy.params().to_vec(),
            told_sizes,
        })
    }
}

#[pymethods]
impl NamedPolicy {
    /// Its name, without parameters.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// All parameters with their values, as text.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        self.parameters.iter().try_for_each(|(name, value)| all.set_item(name, value))?;
        Ok(all)
    }

    /// Whether it is told sizes.
    #[getter]
    fn told_sizes(&self) -> bool {
        self.told_sizes
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("policy({:?})", self.text)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((PyType::new::<Self>(py).getattr("_restored")?, (self.text.clone(),)))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::read(text).or_raise(py)
    }
}

/// A policy with parameters: `policy("dclas", queues=20)`.
#[pyfunction]
#[pyo3(signature = (name, /, **settings))]
pub(crate) fn policy(
    py: Python<'_>,
    name: &str,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<NamedPolicy> {
    NamedPolicy::read(&spec(name, settings)?).or_raise(py)
}

/// A transport with its parameters set; `str()` is the text that names it.
#[pyclass(frozen, module = "cavalcade", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Transport {
    pub(crate) text: String,
    name: String,
}

impl Transport {
    fn read(text: &str) -> Result<Self, Error> {
        let transport = cavalcade::transport::parse(text)?;
        Ok(Self { text: transport.label(), name: transport.name().to_owned() })
    }
}

#[pymethods]
impl Transport {
    /// Its name, without parameters.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("transport({:?})", self.text)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((PyType::new::<Self>(py).getattr("_restored")?, (self.text.clone(),)))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::read(text).or_raise(py)
    }
}

/// A transport with parameters: `transport("dctcp", marking="30KB")`.
#[pyfunction]
#[pyo3(signature = (name, /, **settings))]
pub(crate) fn transport(
    py: Python<'_>,
    name: &str,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Transport> {
    Transport::read(&spec(name, settings)?).or_raise(py)
}

/// A fabric; `str()` is the text that names it.
#[pyclass(frozen, module = "cavalcade", eq)]
#[derive(PartialEq)]
pub(crate) struct Fabric(pub(crate) FabricSpec);

impl Fabric {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(|error| Error::option("fabric", text, error))
    }
}

#[pymethods]
impl Fabric {
    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("fabric({:?})", self.0.to_string())
    }

    fn __hash__(&self) -> u64 {
        // The text names it, so equal ones have one.
        self.0
            .to_string()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((PyType::new::<Self>(py).getattr("_restored")?, (self.0.to_string(),)))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::read(text).or_raise(py)
    }
}

/// A fabric: `fabric("tree", pods=1, racks=3, hosts=4)`, or the text that the program takes.
#[pyfunction]
#[pyo3(signature = (shape, /, **settings))]
pub(crate) fn fabric(py: Python<'_>, shape: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Fabric> {
    Fabric::read(&spec(shape, settings)?).or_raise(py)
}
