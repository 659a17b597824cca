-- PostgreSQL only: elements of arrays are read by another expression there.
SELECT 1;
