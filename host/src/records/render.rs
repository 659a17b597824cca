//! Response bodies from stored JSON text, spliced and never parsed into a tree where nothing has to change.

use bytes::Bytes;

use crate::store::records::RecordRow;

use super::page::Page;

/// DIDs (each once) whose records seem to hold blobs: the caller resolves their PDSs before rendering.
pub fn blob_authors(_rows: &[RecordRow]) -> Vec<&str> {
    todo!()
}

/// `{"records":[{"uri":…,…}],"cursor":…}`. `pds` gives a DID's PDS, for the `url` of blobs; `None` omits them.
pub fn list_body<'a>(_page: &Page, _pds: impl Fn(&str) -> Option<&'a str>) -> Bytes {
    todo!()
}

/// `{"record":{"uri":…,…}}`
pub fn single_body(_row: &RecordRow, _pds: Option<&str>) -> Bytes {
    todo!()
}

/// One row as scripts see it: the record's fields with `uri` first.
pub fn row_json(_row: &RecordRow) -> Bytes {
    todo!()
}

/// A JSON array of [`row_json`]s.
pub fn rows_json(_rows: &[RecordRow]) -> Bytes {
    todo!()
}
