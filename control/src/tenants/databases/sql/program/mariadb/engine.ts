import type { Engine } from "../session.ts";
import { openMariadbAdmin } from "./admin.ts";
import { mariadbRefusal } from "./failure.ts";
import { openMariadb } from "./session.ts";

export const mariadb: Engine = {
  open: openMariadb,
  openAdmin: openMariadbAdmin,
  refusalOf: mariadbRefusal,
};
