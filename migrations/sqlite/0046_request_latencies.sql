-- How many XRPC calls of a method took how long, in steps of five minutes, kept for a week like metric_history, from which
-- label and at are. b0 to b14: calls up to each of the bounds in history/latencies.rs, and those above the last one. The sweep
-- uses the primary key.
CREATE TABLE request_latencies (
    at INTEGER NOT NULL,
    label TEXT NOT NULL,
    b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL, b4 INTEGER NOT NULL,
    b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL, b8 INTEGER NOT NULL, b9 INTEGER NOT NULL,
    b10 INTEGER NOT NULL, b11 INTEGER NOT NULL, b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL,
    PRIMARY KEY (at, label)
) STRICT, WITHOUT ROWID;
