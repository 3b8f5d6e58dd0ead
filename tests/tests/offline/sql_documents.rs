//! Functions in the SQL of the documents that run with their owner's rights search `pg_catalog`
//! alone.
//!
//! Whoever may create something in a schema that they search has a better operator there, which
//! then runs with these rights.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use mailroom_tests::tools;

/// Where SQL is shown to readers.
const DOCUMENTS: [&str; 5] =
    ["README.md", "docs", "migrations/README.md", "verifier-wasm/npm", "web-demo/README.md"];

/// How such a function has to be declared.
const PATH: &str = "SET search_path = pg_catalog, pg_temp";

/// The files of a document or a folder of them, but not what is built or installed there.
fn files(path: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        let is_document = path.extension().is_some_and(|end| end == "md" || end == "sql");
        found.extend(is_document.then(|| path.to_owned()));
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is_made = ["node_modules", "dist", "docs"].iter().any(|made| path.ends_with(made));
        if !is_made {
            files(&path, found)?;
        }
    }
    Ok(())
}

/// The SQL of a document: all of an SQL file, of prose its blocks.
fn sql_of(text: &str, is_sql: bool) -> String {
    if is_sql {
        return text.to_owned();
    }
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix("sql\n")).collect::<Vec<_>>().join("\n")
}

/// The declarations of functions with their owner's rights that search anything else.
fn open_functions(sql: &str) -> Vec<&str> {
    let upper = sql.to_uppercase();
    let starts = upper.match_indices("CREATE ").map(|(start, _)| start);
    let declarations = starts.filter_map(|start| {
        let rest = &upper[start..];
        let kind = rest.trim_start_matches("CREATE ").trim_start_matches("OR REPLACE ");
        if !kind.starts_with("FUNCTION") && !kind.starts_with("PROCEDURE") {
            return None;
        }
        // The body stands between two signs; options may follow it.
        let end = rest.find(';').unwrap_or(rest.len());
        let body = rest[..end].find('$').map(|open| {
            let sign = &rest[open..=open + 1 + rest[open + 1..].find('$').unwrap_or(0)];
            let behind = open + sign.len();
            let close = rest[behind..].find(sign).map_or(rest.len(), |at| behind + at + sign.len());
            (open, close)
        });
        let (open, close) = body.unwrap_or((end, end));
        let end = rest[close..].find(';').map_or(rest.len(), |at| close + at);
        let options = [&sql[start..start + open], &sql[start + close..start + end]].concat();
        let is_definer = options.to_uppercase().contains("SECURITY DEFINER");
        (is_definer && !options.contains(PATH)).then(|| &sql[start..start + open])
    });
    declarations.collect()
}

#[test]
fn functions_of_the_documents_search_nothing_that_others_can_write_to() -> Result<()> {
    let mut found = Vec::new();
    for document in DOCUMENTS {
        files(&tools::workspace().join(document), &mut found)?;
    }
    let examples = tools::workspace().join("docs/examples");
    files(&examples, &mut found)?;
    let mut definers = 0;
    for path in found {
        let text = fs::read_to_string(&path)?;
        let sql = sql_of(&text, path.extension().is_some_and(|end| end == "sql"));
        definers += sql.matches("SECURITY DEFINER").count();
        assert_eq!(open_functions(&sql), Vec::<&str>::new(), "{}", path.display());
    }
    assert!(definers >= 8, "{definers} functions were looked at");
    Ok(())
}

#[test]
fn a_function_is_found_that_searches_anything_else() {
    let safe = "CREATE FUNCTION a() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET \
                search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN NULL; END $$;";
    let invoker = "CREATE FUNCTION b() RETURNS int LANGUAGE sql AS $x$ SELECT 1; $x$;";
    assert_eq!(open_functions(&format!("{safe}\n{invoker}")), Vec::<&str>::new());
    for open in [
        safe.replace("pg_catalog, pg_temp", "public, pg_temp"),
        safe.replace(" SET search_path = pg_catalog, pg_temp", ""),
        safe.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace("pg_catalog, ", ""),
        "create procedure c() language sql as $x$ select 1; $x$ security definer;".to_owned(),
        "CREATE FUNCTION d() RETURNS int LANGUAGE sql SECURITY DEFINER RETURN 1;".to_owned(),
    ] {
        assert_eq!(open_functions(&format!("{invoker}\n{open}\n{safe}")).len(), 1, "{open}");
    }
    let prose =
        format!("text\n```sql\n{safe}\n```\nCREATE FUNCTION x SECURITY DEFINER\n```sh\nx\n```\n");
    assert_eq!(sql_of(&prose, false).trim(), safe);
}
