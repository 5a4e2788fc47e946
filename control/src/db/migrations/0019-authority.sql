-- The cluster's certificate authority can be replaced while daemons work.

-- While it is being replaced: the one before, whose certificates are still let in, and the present one signed by it.
-- Its key is not kept: nothing is signed with it any more.
alter table cluster add column previous_ca_certificate text;
alter table cluster add column cross_certificate text;
alter table cluster add column rotation_started_at timestamptz;
-- Of the last one that came to its end.
alter table cluster add column rotation_finished_at timestamptz;
alter table cluster add constraint cluster_rotation check (
  (previous_ca_certificate is null) = (cross_certificate is null)
  and (previous_ca_certificate is null or rotation_started_at is not null)
);

-- Which authorities the daemon trusts, by the certificate that it presented last; null: it was issued before this was told.
alter table node add column certificate_trust text;

-- When somebody with another key last tried a token that was used.
alter table bootstrap_token add column reused_at timestamptz;
