//! Why certificates and keys cannot be used, in words: what is wrong, since when, and what cures
//! it.
//!
//! The libraries' own texts are for their developers: times as seconds since 1970, variants of
//! enums. Dates are UTC, as a certificate has them, beside the host's clock: where one of both is
//! wrong, it is more often the clock.

use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};
use time::OffsetDateTime;

const RENEW: &str =
    "renew it with 'cavalcade renew DIR COMPONENT', and copy the component's folder to its host";

/// What is wrong with a certificate.
enum Fault {
    Expired(Option<UnixTime>),
    NotYet(Option<UnixTime>),
    Revoked,
    UnknownAuthority,
    Signature,
    Unreadable,
    Purpose,
}

impl Fault {
    fn of_check(error: &webpki::Error) -> Option<Self> {
        Some(match error {
            webpki::Error::CertExpired { not_after, .. } => Self::Expired(Some(*not_after)),
            webpki::Error::CertNotValidYet { not_before, .. } => Self::NotYet(Some(*not_before)),
            webpki::Error::CertRevoked => Self::Revoked,
            webpki::Error::UnknownIssuer => Self::UnknownAuthority,
            webpki::Error::InvalidSignatureForPublicKey => Self::Signature,
            webpki::Error::BadDer | webpki::Error::BadDerTime | webpki::Error::TrailingData(_) => {
                Self::Unreadable
            }
            webpki::Error::CaUsedAsEndEntity | webpki::Error::RequiredEkuNotFoundContext(_) => Self::Purpose,
            _ => return None,
        })
    }

    fn of_certificate(error: &CertificateError) -> Option<Self> {
        Some(match error {
            CertificateError::Expired => Self::Expired(None),
            CertificateError::ExpiredContext { not_after, .. } => Self::Expired(Some(*not_after)),
            CertificateError::NotValidYet => Self::NotYet(None),
            CertificateError::NotValidYetContext { not_before, .. } => Self::NotYet(Some(*not_before)),
            CertificateError::Revoked => Self::Revoked,
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::BadSignature => Self::Signature,
            CertificateError::BadEncoding => Self::Unreadable,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::Purpose
            }
            _ => return None,
        })
    }

    fn of_alert(alert: AlertDescription) -> Option<Self> {
        Some(match alert {
            AlertDescription::CertificateExpired => Self::Expired(None),
            AlertDescription::CertificateRevoked => Self::Revoked,
            AlertDescription::UnknownCA => Self::UnknownAuthority,
            AlertDescription::DecryptError => Self::Signature,
            AlertDescription::BadCertificate => Self::Unreadable,
            AlertDescription::UnsupportedCertificate => Self::Purpose,
            _ => return None,
        })
    }

    fn in_words(&self) -> String {
        let now = date(UnixTime::now());
        let of = |time: &Option<UnixTime>, word: &str| {
            time.map_or(String::new(), |time| {
                format!(" {word} {}, and this host's clock says {now}", date(time))
            })
        };
        match self {
            Self::Expired(end) => {
                format!("it has expired{}: {RENEW}, or set the clock", of(end, "at"))
            }
            Self::NotYet(begin) => {
                format!("it is not valid yet{}: set the clock of this host", of(begin, "before"))
            }
            Self::Revoked => {
                "it was revoked: renew it with 'cavalcade renew DIR COMPONENT --new-key', and copy the component's \
                 folder to its host"
                    .to_owned()
            }
            Self::UnknownAuthority => {
                "it is of none of the authorities in authority.pem: copy all files of a component's folder, \
                                       of one site"
                    .to_owned()
            }
            Self::Signature => {
                "a signature in it is wrong: copy all files of a component's folder, of one site".to_owned()
            }
            Self::Unreadable => {
                "it is damaged, or of a kind that is not known: copy it again, or renew it".to_owned()
            }
            Self::Purpose => {
                "it is not one of a component of a site: 'cavalcade certificates DIR' makes those".to_owned()
            }
        }
    }
}

/// Why the check of a certificate of one's own has failed.
pub(super) fn of_check(error: &webpki::Error) -> String {
    Fault::of_check(error).map_or_else(|| error.to_string(), |fault| fault.in_words())
}

/// Why TLS takes a certificate and a key of one's own not.
pub(crate) fn of_tls(error: &Error) -> String {
    let fault = match error {
        Error::InvalidCertificate(error) => Fault::of_certificate(error),
        Error::InconsistentKeys(_) => {
            return "key.pem is the key to another one: copy all files of a component's folder, of one site"
                .to_owned();
        }
        _ => None,
    };
    fault.map_or_else(|| error.to_string(), |fault| fault.in_words())
}

/// Why a handshake has failed: by whose certificate, where that is why.
pub(crate) fn of_handshake(error: io::Error) -> io::Error {
    let text = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(fault)) => {
            Fault::of_certificate(fault).map(|fault| format!("the peer's certificate: {}", fault.in_words()))
        }
        Some(&Error::AlertReceived(alert)) => {
            let fault = Fault::of_alert(alert);
            fault.map(|fault| format!("the peer refuses this component's certificate: {}", fault.in_words()))
        }
        Some(Error::NoCertificatesPresented) => Some("the peer has shown no certificate".to_owned()),
        _ => None,
    };
    text.map_or_else(|| error, |text| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// A second in UTC, as `2026-11-26 13:57:01 UTC`.
fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => {
            let (year, month, day) = at.to_calendar_date();
            let (hour, minute, second) = at.to_hms();
            format!("{year}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC", u8::from(month))
        }
        // Beyond all calendars.
        Err(_) => format!("{seconds} s after 1970"),
    }
}

/// What a file holds in place of what it should, with the cure; nothing where that is not known.
pub(super) fn instead(text: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(text);
    let begins = |label: &str| text.contains(&format!("-----BEGIN {label}-----"));
    if begins("ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        ", but one with a passphrase, which nobody enters when a component starts: write it without one, with \
         'openssl pkey -in FILE -out NEW', and keep it readable for its owner alone"
    } else if begins("OPENSSH PRIVATE KEY") {
        ", but one of OpenSSH: convert it with 'ssh-keygen -p -m PEM -f FILE', or use the one that 'cavalcade certificates' made"
    } else if begins("PUBLIC KEY") {
        ", but a public key: use the private one that belongs to the certificate"
    } else if begins("CERTIFICATE") {
        ", but a certificate: perhaps two files have each other's names"
    } else if text.contains("PRIVATE KEY-----") {
        ", but a key that is damaged, or should be elsewhere: copy the file again"
    } else if text.starts_with('0') && !text.contains("-----BEGIN") {
        ", but perhaps the same in DER form: convert it with 'openssl', which reads it with -inform DER"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    }

    #[test]
    fn times_are_dates_in_utc() {
        assert_eq!(date(at(0)), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(at(951_827_696)), "2000-02-29 12:34:56 UTC");
        assert_eq!(date(at(u64::MAX)), format!("{} s after 1970", i64::MAX));
    }

    #[test]
    fn no_fault_of_a_certificate_is_shown_as_code_has_it_and_each_has_a_cure() {
        let (time, edge) = (at(1_000), at(951_827_696));
        let faults = [
            (
                CertificateError::ExpiredContext { time, not_after: edge },
                "expired at 2000-02-29 12:34:56 UTC",
            ),
            (
                CertificateError::NotValidYetContext { time, not_before: edge },
                "before 2000-02-29 12:34:56 UTC",
            ),
            (CertificateError::Expired, "cavalcade renew"),
            (CertificateError::Revoked, "cavalcade renew"),
            (CertificateError::UnknownIssuer, "authority.pem"),
            (CertificateError::BadSignature, "copy all files"),
        ];
        for (fault, part) in faults {
            let handshake =
                io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(fault.clone()));
            let peer = of_handshake(handshake).to_string();
            let own = of_tls(&Error::InvalidCertificate(fault));
            for text in [own, peer] {
                assert!(text.contains(part) && !text.contains("UnixTime") && !text.contains('{'), "{text}");
            }
        }
        let expired = webpki::Error::CertExpired { time, not_after: edge };
        assert!(
            of_check(&expired)
                .starts_with("it has expired at 2000-02-29 12:34:56 UTC, and this host's clock says 20")
        );
        let alert = Error::AlertReceived(AlertDescription::CertificateExpired);
        let told = of_handshake(io::Error::new(io::ErrorKind::InvalidData, alert)).to_string();
        assert!(
            told.starts_with("the peer refuses this component's certificate: it has expired: renew"),
            "{told}"
        );
        let other = of_handshake(io::Error::new(io::ErrorKind::UnexpectedEof, "the end"));
        assert_eq!((other.kind(), other.to_string()), (io::ErrorKind::UnexpectedEof, "the end".to_owned()));
    }

    #[test]
    fn what_is_in_a_file_instead_is_named_with_its_cure() {
        for (text, part) in [
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "'openssl pkey -in FILE -out NEW'"),
            ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", "passphrase"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-keygen"),
            ("-----BEGIN CERTIFICATE-----\n", "each other's names"),
            ("-----BEGIN PUBLIC KEY-----\n", "the private one"),
            ("-----BEGIN PRIVATE KEY-----\n!!\n", "damaged"),
            ("0\u{82}\u{1}", "-inform DER"),
        ] {
            assert!(instead(text.as_bytes()).contains(part), "{text}");
        }
        assert_eq!(instead(b"garbage"), "");
    }
}
