//! Fields in and out of bytes, and the macros that make messages of fields.
//!
//! A [`Field`] knows how it is written and how it is read; a message is a struct or enum whose
//! fields do. The macros write both directions from one list, so they cannot come apart.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, Priority, TaskClass};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::error::WireError;

/// Something with a byte format of its own.
pub trait Message: Sized {
    /// Appends the message to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a message that is all of `bytes`.
    ///
    /// # Errors
    /// If the bytes are anything but what [`Message::encode`] writes for some value.
    fn decode(bytes: &[u8]) -> Result<Self, WireError>;

    /// The message as bytes of its own.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

impl<T: Field> Message for T {
    fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = Self::take(&mut reader)?;
        match reader.left() {
            0 => Ok(value),
            left => Err(WireError::TrailingBytes { at: reader.at, left }),
        }
    }
}

/// A part of a message.
pub trait Field: Sized {
    /// Its name in errors.
    const NAME: &'static str;
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads one.
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Bytes that are being read.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Returns the number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Makes the error that `field`, which began `length` bytes ago, should have been as `expected`
    /// says.
    pub(crate) fn invalid(&self, field: &'static str, length: usize, expected: &'static str) -> WireError {
        WireError::Invalid { at: self.at - length, field, expected }
    }

    pub(crate) fn raw(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        if self.left() < length {
            return Err(WireError::Truncated { at: self.bytes.len(), field });
        }
        self.at += length;
        Ok(&self.bytes[self.at - length..self.at])
    }

    fn byte(&mut self, field: &'static str) -> Result<u8, WireError> {
        Ok(self.raw(1, field)?[0])
    }

    /// A varint in as few bytes as it needs, at most `limit`.
    pub(crate) fn varint(&mut self, field: &'static str, limit: u64) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    return Err(self.invalid(field, self.at - start, "a number in as few bytes as it needs"));
                }
                if value > limit {
                    return Err(self.invalid(field, self.at - start, "a smaller number"));
                }
                return Ok(value);
            }
        }
        Err(self.invalid(field, self.at - start, "a number of 64 bits"))
    }

    /// The number of items of a list: at least a byte of each must follow.
    pub(crate) fn count(&mut self) -> Result<usize, WireError> {
        let start = self.at;
        let count = self.varint("the length of a list", u64::MAX)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => Ok(count),
            _ => {
                Err(self.invalid("the length of a list", self.at - start, "no more items than bytes follow"))
            }
        }
    }
}

/// Appends a varint.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

macro_rules! number {
    ($($type:ty, $name:literal, $get:expr, $make:expr, $limit:expr;)*) => {$(
        impl Field for $type {
            const NAME: &'static str = $name;
            fn put(&self, out: &mut Vec<u8>) {
                put_varint($get(*self), out);
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok($make(reader.varint($name, $limit)?))
            }
        }
    )*};
}

number! {
    u64, "a number", |value| value, |value| value, u64::MAX;
    u32, "a number", u64::from, |value| value as u32, u64::from(u32::MAX);
    u16, "a number", u64::from, |value| value as u16, u64::from(u16::MAX);
    Bytes, "an amount of bytes", |value: Bytes| value.0, Bytes, u64::MAX;
    BitsPerSec, "a rate", |value: BitsPerSec| value.0, BitsPerSec, u64::MAX;
    Nanos, "a span of time", |value: Nanos| value.0, Nanos, u64::MAX;
    Instant, "a point in time", |value: Instant| value.0, Instant, u64::MAX;
    PortId, "a port", |value: PortId| u64::from(value.0), |value| PortId(value as u32), u64::from(u32::MAX);
}

impl Field for bool {
    const NAME: &'static str = "a yes or no";
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.byte(Self::NAME)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(reader.invalid(Self::NAME, 1, "0 or 1")),
        }
    }
}

impl Field for () {
    const NAME: &'static str = "nothing";
    fn put(&self, _: &mut Vec<u8>) {}
    fn take(_: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

impl<T: Field> Field for Option<T> {
    const NAME: &'static str = T::NAME;
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(if bool::take(reader)? { Some(T::take(reader)?) } else { None })
    }
}

impl<T: Field> Field for Vec<T> {
    const NAME: &'static str = T::NAME;
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.count()?;
        // Not with_capacity(count): an item in memory is larger than the byte of it that is known
        // to follow.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(T::take(reader)?);
        }
        Ok(items)
    }
}

impl Field for String {
    const NAME: &'static str = "a text";
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = reader.count()?;
        let bytes = reader.raw(length, Self::NAME)?;
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(reader.invalid(Self::NAME, length, "UTF-8")),
        }
    }
}

impl Field for Priority {
    const NAME: &'static str = "a priority";
    fn put(&self, out: &mut Vec<u8>) {
        self.class.put(out);
        self.order.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Priority::new(u16::take(reader)?, u64::take(reader)?))
    }
}

impl Field for TaskClass {
    const NAME: &'static str = "a class of task";
    fn put(&self, out: &mut Vec<u8>) {
        (*self == TaskClass::Background).put(out);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(if bool::take(reader)? { TaskClass::Background } else { TaskClass::Online })
    }
}

/// IPv4 or IPv6, then the port as two bytes. Scope and flow label of IPv6 stay on the host.
impl Field for SocketAddr {
    const NAME: &'static str = "an address";
    fn put(&self, out: &mut Vec<u8>) {
        match self.ip() {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.port().to_le_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let ip = match reader.byte(Self::NAME)? {
            4 => IpAddr::V4(Ipv4Addr::from(array::<4>(reader.raw(4, Self::NAME)?))),
            6 => IpAddr::V6(Ipv6Addr::from(array::<16>(reader.raw(16, Self::NAME)?))),
            _ => return Err(reader.invalid(Self::NAME, 1, "4 or 6 for the version of the address")),
        };
        Ok(SocketAddr::new(ip, u16::from_le_bytes(array(reader.raw(2, Self::NAME)?))))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many bytes were read as the array holds")
}

/// A struct that is the sequence of its fields.
macro_rules! fields {
    ($(#[$doc:meta])* $name:ident ($title:literal) { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::formats::bytes::Field for $name {
            const NAME: &'static str = $title;
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::formats::bytes::Field::put(&self.$field, out);)*
            }
            fn take(reader: &mut $crate::formats::bytes::Reader<'_>) -> Result<Self, $crate::WireError> {
                Ok(Self { $($field: $crate::formats::bytes::Field::take(reader)?,)* })
            }
        }
    };
}

/// An enum that is a tag and the fields of the variant.
macro_rules! variants {
    ($(#[$doc:meta])* $name:ident ($title:literal) {
        $($(#[$variant_doc:meta])* $tag:literal => $variant:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* },)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $field: $type,)* },)*
        }

        impl $crate::formats::bytes::Field for $name {
            const NAME: &'static str = $title;
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        $crate::formats::bytes::put_varint($tag, out);
                        $($crate::formats::bytes::Field::put($field, out);)*
                    })*
                }
            }
            fn take(reader: &mut $crate::formats::bytes::Reader<'_>) -> Result<Self, $crate::WireError> {
                let before = reader.left();
                match reader.varint($title, u64::MAX)? {
                    $($tag => Ok($name::$variant { $($field: $crate::formats::bytes::Field::take(reader)?,)* }),)*
                    _ => Err(reader.invalid($title, before - reader.left(), "a kind that this version knows")),
                }
            }
        }
    };
}

pub(crate) use {fields, variants};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_more_bytes_than_it_needs_is_refused() {
        assert_eq!(u64::decode(&[0x7f]), Ok(127));
        assert!(matches!(u64::decode(&[0xff, 0x00]), Err(WireError::Invalid { at: 0, .. })));
    }

    #[test]
    fn a_number_beyond_its_type_is_refused() {
        assert_eq!(u64::decode(&u64::MAX.to_bytes()), Ok(u64::MAX));
        let mut eleven = vec![0xff; 9];
        eleven.push(0x02);
        assert!(matches!(u64::decode(&eleven), Err(WireError::Invalid { .. })));
        assert!(matches!(u16::decode(&65_536u64.to_bytes()), Err(WireError::Invalid { .. })));
    }

    #[test]
    fn a_list_that_claims_more_items_than_bytes_is_refused_before_anything_is_reserved() {
        assert!(matches!(Vec::<u64>::decode(&u64::MAX.to_bytes()), Err(WireError::Invalid { .. })));
    }

    #[test]
    fn a_text_that_is_cut_off_says_where() {
        assert_eq!(bool::decode(&[]), Err(WireError::Truncated { at: 0, field: "a yes or no" }));
        assert_eq!(bool::decode(&[1, 1]), Err(WireError::TrailingBytes { at: 1, left: 1 }));
    }
}
