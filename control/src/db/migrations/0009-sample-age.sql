-- Old samples are found without reading all of them: they were written in the order of their time.
create index resource_sample_at on resource_sample using brin (at) with (autosummarize = on);
