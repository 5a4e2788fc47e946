import type { Engine } from "../session.ts";
import { openPostgresAdmin } from "./admin.ts";
import { postgresRefusal } from "./failure.ts";
import { openPostgres } from "./session.ts";

export const postgres: Engine = {
  open: openPostgres,
  openAdmin: openPostgresAdmin,
  refusalOf: postgresRefusal,
};
