import { listAudit } from "./audit/listing.ts";
import { listDatabases } from "./databases/listing.ts";
import { doctor } from "./doctor/doctor.ts";
import { listAllProjects } from "./projects/listing.ts";
import { removeAnyProject } from "./projects/remove.ts";
import { series } from "./stats/series.ts";
import { stats } from "./stats/stats.ts";
import { ban, plan, remove, role, unban } from "./users/actions.ts";
import { listUsers } from "./users/listing.ts";

export const adminEndpoints = [
  ...[listUsers, remove, ban, unban, role, plan],
  ...[listAllProjects, removeAnyProject],
  ...[listDatabases, stats, series, listAudit, doctor],
];
