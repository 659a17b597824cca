-- The tables metric_history and request_latencies in steps of a minute, kept for some hours, and of an hour, kept for two months
-- (docs/adr/0148). Hosts add their counts to the steps of all three lengths.
CREATE TABLE metric_history_minutes (
    metric TEXT NOT NULL,
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    count BIGINT NOT NULL,
    total DOUBLE PRECISION NOT NULL,
    max DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (metric, at, label)
);

-- The sweep, and the time at which the history begins.
CREATE INDEX metric_history_minutes_at ON metric_history_minutes (at);

CREATE TABLE request_latencies_minutes (
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL, b4 INTEGER NOT NULL,
    b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL, b8 INTEGER NOT NULL, b9 INTEGER NOT NULL,
    b10 INTEGER NOT NULL, b11 INTEGER NOT NULL, b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL,
    PRIMARY KEY (at, label)
);

CREATE TABLE metric_history_hours (
    metric TEXT NOT NULL,
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    count BIGINT NOT NULL,
    total DOUBLE PRECISION NOT NULL,
    max DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (metric, at, label)
);

-- The sweep, and the time at which the history begins.
CREATE INDEX metric_history_hours_at ON metric_history_hours (at);

CREATE TABLE request_latencies_hours (
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    b0 INTEGER NOT NULL, b1 INTEGER NOT NULL, b2 INTEGER NOT NULL, b3 INTEGER NOT NULL, b4 INTEGER NOT NULL,
    b5 INTEGER NOT NULL, b6 INTEGER NOT NULL, b7 INTEGER NOT NULL, b8 INTEGER NOT NULL, b9 INTEGER NOT NULL,
    b10 INTEGER NOT NULL, b11 INTEGER NOT NULL, b12 INTEGER NOT NULL, b13 INTEGER NOT NULL, b14 INTEGER NOT NULL,
    PRIMARY KEY (at, label)
);

-- The week that is stored. A host of the version before does not add to it.
INSERT INTO metric_history_hours
SELECT metric, at / 3600000000 * 3600000000, label, CAST(sum(count) AS BIGINT), sum(total), max(max)
FROM metric_history GROUP BY 1, 2, 3;

INSERT INTO request_latencies_hours
SELECT at / 3600000000 * 3600000000, label,
    CAST(sum(b0) AS INTEGER), CAST(sum(b1) AS INTEGER), CAST(sum(b2) AS INTEGER), CAST(sum(b3) AS INTEGER), CAST(sum(b4) AS INTEGER),
    CAST(sum(b5) AS INTEGER), CAST(sum(b6) AS INTEGER), CAST(sum(b7) AS INTEGER), CAST(sum(b8) AS INTEGER), CAST(sum(b9) AS INTEGER),
    CAST(sum(b10) AS INTEGER), CAST(sum(b11) AS INTEGER), CAST(sum(b12) AS INTEGER), CAST(sum(b13) AS INTEGER), CAST(sum(b14) AS INTEGER)
FROM request_latencies GROUP BY 1, 2;
