import { backupEndpoints } from "./backups/endpoints.ts";
import { create, drop, list, read } from "./endpoints/branches.ts";
import { reveal, rotate } from "./endpoints/credentials.ts";
import { deleteQuery, listQueries, saveQuery } from "./endpoints/saved-queries.ts";

export const databaseEndpoints = [
  create,
  read,
  list,
  drop,
  reveal,
  rotate,
  listQueries,
  saveQuery,
  deleteQuery,
  ...backupEndpoints,
];
