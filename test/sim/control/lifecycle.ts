import { Refused } from "@svc/control/stores/refused";
import { requestLifecycle } from "@svc/control/tenants/deployments/testing/memory/request";
import type { SiteRow, Tables } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";

/** Somebody stops what a site serves, or has it serve again. */
export function request(world: World, tables: Tables, site: SiteRow, action: "stop" | "start"): void {
  const { postgres, checks } = world;
  const { projectId } = site;
  try {
    requestLifecycle({ tables, now: postgres.now(), notify() {} }, projectId, action);
  } catch (error) {
    if (error instanceof Refused) return;
    throw error;
  }
  if (action === "start") checks.rows.onStartAsked(projectId);
  else checks.rows.onStopAsked(site);
}
