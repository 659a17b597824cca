-- The moderated records of a collection that the repos have, in the order of the admin API's list (docs/adr/0133).
CREATE INDEX hidden_records_list ON hidden_records (collection_id, indexed_at, did_id, rkey) WHERE record IS NOT NULL;
-- Those of one account.
CREATE INDEX hidden_records_list_did ON hidden_records (collection_id, did_id, indexed_at, rkey) WHERE record IS NOT NULL;
