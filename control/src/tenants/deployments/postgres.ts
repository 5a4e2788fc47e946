import { type BuildDeps, buildEffects } from "./build.ts";
import type { DeployWorkerDeps } from "./effects.ts";
import { deployRows, type StoredDeploy } from "./rows.ts";

/** The deploy worker's questions to Postgres, and how it makes artifacts. */
export const deploysOnPostgres = (deps: BuildDeps): Pick<DeployWorkerDeps<StoredDeploy>, "rows" | "builds"> => ({
  rows: deployRows(deps.db),
  builds: (fail) => buildEffects(deps, fail),
});
