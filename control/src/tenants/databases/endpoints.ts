import { backupEndpoints } from "./backups/endpoints.ts";
import { scheduleEndpoints } from "./backups/schedule/endpoints.ts";
import { changeEndpoints } from "./changes/endpoints.ts";
import { fetchEndpoints } from "./copies/offsite/fetch/endpoints.ts";
import { droppedEndpoints } from "./dropped/endpoints.ts";
import { create, drop, list, read } from "./endpoints/branches.ts";
import { reveal, rotate } from "./endpoints/credentials.ts";
import { deleteQuery, listQueries, saveQuery } from "./endpoints/saved-queries.ts";

import { studioEndpoints } from "./studio/endpoints.ts";
import { transferEndpoints } from "./studio/transfers.ts";
import { tunnel } from "./tunnel/endpoint.ts";
import { volumeEndpoints } from "./volumes/endpoints.ts";

export const databaseEndpoints = [
  ...[create, read, list, drop, reveal, rotate],
  ...studioEndpoints,
  ...transferEndpoints,
  ...[listQueries, saveQuery, deleteQuery],
  ...backupEndpoints,
  ...changeEndpoints,
  ...volumeEndpoints,
  ...droppedEndpoints,
  ...fetchEndpoints,
  ...scheduleEndpoints,
  tunnel,
];
