//! As much of a client as the cases need.

use anyhow::{Context, Result};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Asks a server of this machine; a connection that breaks off early is an error.
pub(crate) fn ask(
    address: &str,
    token: &str,
    path: &str,
    body: Option<&str>,
) -> Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.unwrap_or_default();
    let bearer = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{bearer}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").context("no head")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).context("no status")?;
    let body = &bytes[end + 4..];
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if is_chunked { chunks(body)? } else { body.to_vec() }))
}

/// The content of a chunked body, which must have its last chunk.
fn chunks(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|w| w == b"\r\n").context("the answer breaks off")?;
        let len = usize::from_str_radix(std::str::from_utf8(&body[..end])?.trim(), 16)?;
        let rest = &body[end + 2..];
        if len == 0 {
            return Ok(content);
        }
        content.extend_from_slice(rest.get(..len).context("the answer breaks off")?);
        body = rest.get(len + 2..).context("the answer breaks off")?;
    }
}
