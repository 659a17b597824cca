-- The labels of a source in the order of com.atproto.label.queryLabels, and the latest of each subject, value and version (docs/adr/0134).
CREATE INDEX issued_labels_walk ON issued_labels (src, uri, val, coalesce(cid, ''), seq);
-- Those of one subject, newest first.
CREATE INDEX issued_labels_subject ON issued_labels (uri, seq);
DROP INDEX issued_labels_uri;
