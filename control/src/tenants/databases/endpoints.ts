import { backupEndpoints } from "./backups/endpoints.ts";
import { scheduleEndpoints } from "./backups/schedule/endpoints.ts";
import { changeEndpoints } from "./changes/endpoints.ts";
import { fetchEndpoints } from "./copies/offsite/fetch/endpoints.ts";
import { create, drop, list, read } from "./endpoints/branches.ts";
import { reveal, rotate } from "./endpoints/credentials.ts";
import { deleteQuery, listQueries, saveQuery } from "./endpoints/saved-queries.ts";

import { studioEndpoints } from "./studio/endpoints.ts";
import { tunnel } from "./tunnel/endpoint.ts";

export const databaseEndpoints = [
  ...[create, read, list, drop, reveal, rotate],
  ...studioEndpoints,
  ...[listQueries, saveQuery, deleteQuery],
  ...backupEndpoints,
  ...changeEndpoints,
  ...fetchEndpoints,
  ...scheduleEndpoints,
  tunnel,
];
