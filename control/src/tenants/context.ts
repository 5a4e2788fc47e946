import type { Registry } from "@svc/registry";
import type { FleetContext } from "../fleet/context.ts";
import type { ReferencePolicy } from "../fleet/images/reference.ts";
import type { Uploads } from "./deployments/upload/slots.ts";

/** What endpoints about projects are given. */
export interface TenantContext extends FleetContext {
  registry: Registry;
  references: ReferencePolicy;
  uploads: Uploads;
}
