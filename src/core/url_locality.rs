//! Is a key's endpoint on this machine or in a private network? Owns the address ranges; looks nothing up.
//!
//! The question is asked of a parsed URL, never of its text: `http://2130706433/`, `http://0x7f.1/` and
//! `http://ｌｏｃａｌｈｏｓｔ/` are all local, `http://127.0.0.1@example.com/` is not.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// True for loopback and private addresses. Link-local and cloud-metadata addresses are not "local": a host must not treat
/// them as a friendly endpoint. A text that is no URL, or a URL without a host, is not local either.
#[must_use]
pub fn is_loopback_or_private_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    match url.host() {
        Some(Host::Ipv4(address)) => is_local_v4(address),
        Some(Host::Ipv6(address)) => is_local_v6(address),
        Some(Host::Domain(name)) => is_local_name(name),
        None => false,
    }
}

/// `localhost` and its subdomains. Schemes that URL parsers do not know keep their host as written, so an address can
/// arrive here as text; only the full dotted form is one then.
fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(is_local_v4)
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    // Alibaba Cloud's metadata service sits inside 100.64/10.
    const METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    if address == METADATA {
        return false;
    }
    match address.octets() {
        [0 | 10 | 127, ..] | [192, 168, ..] => true,
        [172, second, ..] => second & 0xf0 == 16,
        [100, second, ..] => second & 0xc0 == 64,
        _ => false,
    }
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    // Amazon's metadata service sits inside fc00::/7.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);
    if address == Ipv6Addr::LOCALHOST || address == Ipv6Addr::UNSPECIFIED {
        return true;
    }
    if address == METADATA {
        return false;
    }
    if let Some(inner) = embedded_v4(address) {
        return is_local_v4(inner);
    }
    address.segments()[0] & 0xfe00 == 0xfc00
}

/// The IPv4 address inside an IPv4-mapped (`::ffff:a.b.c.d`), IPv4-compatible (`::a.b.c.d`) or NAT64
/// (`64:ff9b::a.b.c.d`) address: that is where the packets go.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let ([0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low]) =
        address.segments()
    else {
        return None;
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::is_loopback_or_private_url;

    #[test]
    fn local() {
        for url in [
            "http://localhost",
            "HTTP://LOCALHOST/",
            "http://localhost./v1",
            "http://api.localhost:80/x",
            "http://127.1:8080",
            "http://0/",
            "http://10.255.255.255/v1",
            "http://172.16.0.1",
            "http://172.31.255.255",
            "http://192.168.0.10:1234/v1",
            "http://100.64.0.1",
            "http://100.127.255.255",
            "http://[::1]:8080/",
            "http://[::]/",
            "http://[::ffff:10.1.2.3]/",
            "http://[fdff:ffff::1]",
            "http://[64:ff9b::10.0.0.1]/",
            "http://[::10.0.0.1]/",
            "http://2130706433/",
            "http://017700000001/",
            "http://127.0.0.1./",
            "http://example.com@127.0.0.1/",
            "http:127.0.0.1",
            "http:\\\\localhost\\v1",
            " http://localhost/ ",
            "http://loc\talhost/",
            "http://%6cocalhost/",
            "http://ｌｏｃａｌｈｏｓｔ/",
            "http://127。0。0。1/",
            "foo://LOCALHOST/",
            "foo://127.0.0.1/",
            "http://10.0.0.1:0/",
        ] {
            assert!(is_loopback_or_private_url(url), "{url}");
        }
    }

    #[test]
    fn not_local() {
        for url in [
            "http://localhost../v1",
            "http://xlocalhost/",
            "http://localhost.example.com/",
            "http://128.0.0.1/",
            "http://11.0.0.1",
            "http://172.15.255.255",
            "http://172.32.0.0",
            "http://192.167.1.1",
            "http://100.63.255.255",
            "http://100.128.0.0",
            "http://100.100.100.200/",
            "http://[::ffff:100.100.100.200]/",
            "http://169.254.169.254/latest",
            "http://192.0.0.192",
            "http://[::ffff:8.8.8.8]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[fe80::1]/",
            "http://[fe00::1]/",
            "http://[fd00:ec2::254]/",
            "http://[64:ff9b::8.8.8.8]/",
            "http://127.0.0.1@example.com/",
            "localhost:11434",
            "127.0.0.1:8080",
            "//127.0.0.1/",
            "foo://127.1/",
            "file:///etc/hosts",
            "mailto:a@localhost",
            "http://",
            "",
            "garbage",
            "http://256.0.0.1/",
            "http://127.0.0.1.5/",
            "http://host.docker.internal:11434",
            "http://[::1",
            "http://[fe80::1%25eth0]/",
            "http://127.0.0.1:99999/",
        ] {
            assert!(!is_loopback_or_private_url(url), "{url}");
        }
    }
}
