-- Which domain was that of PUBLIC_URL at the last start: another one is made the primary, while the same leaves an admin's
-- choice of the primary as it is. Until now every start made it the primary.
ALTER TABLE domains ADD COLUMN is_public_url BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE domains SET is_public_url = is_primary;
