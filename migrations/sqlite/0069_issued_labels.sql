-- The labels of this instance as a labeler, in the order in which subscribers get them (docs/adr/0128). A row is never changed: a later one
-- of the same src, uri, val and cid replaces it. src: the instance's DID at that time. They are signed when they are sent. Each is
-- also a row of labels, like those of other labelers.
CREATE TABLE issued_labels (
    seq INTEGER PRIMARY KEY,
    src TEXT NOT NULL,
    uri TEXT NOT NULL,
    cid TEXT,
    val TEXT NOT NULL,
    neg INTEGER NOT NULL,
    cts INTEGER NOT NULL,
    exp INTEGER,
    created_by TEXT NOT NULL
) STRICT;

-- The labels of subjects whose URIs begin with a text, and which of them is the latest.
CREATE INDEX issued_labels_uri ON issued_labels (uri, val, seq);
