import { auditEndpoints } from "./audit/endpoints.ts";
import { adminDatabaseEndpoints } from "./databases/endpoints.ts";
import { doctorEndpoints } from "./doctor/endpoints.ts";
import { adminProjectEndpoints } from "./projects/endpoints.ts";
import { statsEndpoints } from "./stats/endpoints.ts";
import { adminUserEndpoints } from "./users/endpoints.ts";

export const adminEndpoints = [
  ...adminUserEndpoints,
  ...adminProjectEndpoints,
  ...adminDatabaseEndpoints,
  ...statsEndpoints,
  ...auditEndpoints,
  ...doctorEndpoints,
];
