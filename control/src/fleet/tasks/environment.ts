import { type Manifest, manifestPort, storedManifestSchema } from "@svc/proto";
import type { Branch, Deployment, Plan, Project } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { databaseVariable, openDatabaseUrl } from "../databases/ready.ts";
import type { DeploymentAndProject } from "./deployment.ts";

/** The sealed environment of a deployment lives at this place; see `Secrets`. */
export const envAad = (deploymentId: string) => `deployment/${deploymentId}/env`;

/** The sealed variables of its packed env files live here. */
export const fileEnvAad = (deploymentId: string) => `deployment/${deploymentId}/file_env`;

/** What containers of a deployment are told of that was not decided when it was accepted: as it is when they start. */
interface Circumstances {
  /** The database of its channel; null: there is none that can be used. */
  branch: Branch | null;
  /** That of the project's owner. */
  plan: Pick<Plan, "max_sse_connections">;
}

/** A deployment with the environment that it was accepted with. Throws `CannotOpen`. */
export function openDeployment(
  secrets: Secrets,
  { deployment, project }: DeploymentAndProject,
  { branch, plan }: Circumstances,
) {
  const manifest = storedManifestSchema.parse(deployment.manifest);
  const ownEnv = openEnv(secrets, deployment);
  const databaseEnv = branch === null ? {} : { [databaseVariable]: openDatabaseUrl(secrets, branch) };
  return {
    ...{ deployment, project, manifest, ownEnv },
    databaseId: branch?.id ?? "",
    env: { ...ownEnv, ...platformEnv(deployment, project, manifest, plan), ...databaseEnv },
    // The password is also in the address.
    secretValues: [...Object.values(ownEnv), ...Object.values(databaseEnv)],
  };
}

function openEnv(secrets: Secrets, deployment: { id: string; env: Buffer | null }): Record<string, string> {
  if (deployment.env === null) return {};
  return JSON.parse(secrets.open(deployment.env, envAad(deployment.id)).toString("utf8")) as Record<string, string>;
}

/** What every container of a deployment is told about itself; wins over the project's own variables. */
function platformEnv(
  deployment: Deployment,
  project: Project,
  manifest: Manifest,
  plan: Circumstances["plan"],
): Record<string, string> {
  return {
    PORT: String(manifestPort(manifest)),
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_SLUG: project.slug,
    SVC_CHANNEL: deployment.channel,
    SVC_DEPLOYMENT_ID: deployment.id,
    SVC_PUBLIC_URL: deployment.url,
    SVC_MAX_SSE_CONNECTIONS: String(plan.max_sse_connections),
    ...(deployment.git_sha !== null && { SVC_GIT_SHA: deployment.git_sha }),
  };
}
