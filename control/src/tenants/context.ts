import type { Egress, Registry } from "@svc/registry";
import type { FleetContext } from "../fleet/context.ts";
import type { ReferencePolicy } from "../fleet/images/reference.ts";
import type { Upgrades } from "../http/upgrades.ts";
import type { Bucket } from "../stores/s3/bucket.ts";
import type { Studio } from "./databases/studio/studio.ts";
import type { TakePlace } from "./databases/tunnel/places.ts";
import type { Uploads } from "./deployments/upload/slots.ts";

/** What endpoints about projects are given. */
export interface TenantContext extends FleetContext {
  registry: Registry;
  /** Where backups and copies of databases are kept besides, outside of this site; null: nowhere. */
  bucket: Bucket | null;
  references: ReferencePolicy;
  uploads: Uploads;
  /** Judges where webhooks of alerts may lead. */
  webhookEgress: Egress;
  /** Asks servers of branches. */
  studio: Studio;
  upgrades: Upgrades;
  /** By project: how many tools may use its databases from outside at once. */
  takeTunnelPlace: TakePlace;
}
