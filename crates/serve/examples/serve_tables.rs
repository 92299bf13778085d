//! Serves a folder of tables, as `transect view` serves a recording: for work on the page.
//!
//! `serve_tables TABLES [ADDRESS]`, with `view/` beside the folder of tables.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;
use transect_serve::{Exported, Opened, Options, Recording, Server};

struct Tables(PathBuf);

impl Recording for Tables {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn open(&self, _: transect_serve::Tell<'_>) -> Result<Opened, String> {
        let tables = self.0.canonicalize().map_err(|error| error.to_string())?;
        let parent = tables.parent().map(PathBuf::from).unwrap_or_default();
        let (unit, filter, notes) = ("ns", None, Vec::new());
        Ok(Opened { tables, can_be_made_again: false, parent, unit, filter, notes })
    }

    fn export(&self, _: i64, _: i64, _: &str) -> Result<Exported, String> {
        Err("tables alone cannot be exported".to_owned())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let tables = args.next().ok_or("serve_tables TABLES [ADDRESS]")?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let options = Options { address, memory_bytes: 1 << 30, threads: 2, require_sandbox: false };
    let server = Server::start(Box::new(Tables(tables.into())), &options)?;
    println!("{}", server.url());
    loop {
        std::thread::park();
    }
}
