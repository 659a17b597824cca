-- How much the server did, in steps of five minutes, kept for a week. at: when the step begins. label: the method, script or
-- client; empty for a metric without. All hosts add to the same rows. total: of the measured values, as max.
CREATE TABLE metric_history (
    metric TEXT NOT NULL,
    at BIGINT NOT NULL,
    label TEXT NOT NULL,
    count BIGINT NOT NULL,
    total DOUBLE PRECISION NOT NULL,
    max DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (metric, at, label)
);

-- The sweep.
CREATE INDEX metric_history_at ON metric_history (at);
