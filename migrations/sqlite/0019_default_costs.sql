-- The default costs of calls, so that the list of settings shows them from the first start (admin-api.md §9). A value that
-- an admin has stored stays.
INSERT INTO settings (key, value, updated_at) VALUES
    ('rate_limit.default_query_cost', '1', 0),
    ('rate_limit.default_procedure_cost', '1', 0),
    ('rate_limit.default_proxy_cost', '1', 0)
ON CONFLICT (key) DO NOTHING;
