import { type Manifest, manifestPort, storedManifestSchema } from "@svc/proto";
import type { Branch, Deployment, Project } from "../../stores/db/tables.ts";
import type { Secrets } from "../../stores/secrets.ts";
import { databaseVariable, openDatabaseUrl } from "../databases/ready.ts";
import type { DeploymentAndProject } from "./deployment.ts";

/** The sealed environment of a deployment lives at this place; see `Secrets`. */
export const envAad = (deploymentId: string) => `deployment/${deploymentId}/env`;

/** The sealed variables of its packed env files live here. */
export const fileEnvAad = (deploymentId: string) => `deployment/${deploymentId}/file_env`;

/** A deployment with the environment that it was accepted with. Throws `CannotOpen`. */
export function openDeployment(
  secrets: Secrets,
  { deployment, project }: DeploymentAndProject,
  /** The database of its channel; null: there is none that can be used. */
  branch: Branch | null,
) {
  const manifest = storedManifestSchema.parse(deployment.manifest);
  const ownEnv = openEnv(secrets, deployment);
  const databaseEnv = branch === null ? {} : { [databaseVariable]: openDatabaseUrl(secrets, branch) };
  return {
    ...{ deployment, project, manifest, ownEnv },
    databaseId: branch?.id ?? "",
    env: { ...ownEnv, ...platformEnv(deployment, project, manifest), ...databaseEnv },
    // The password is also in the address.
    secretValues: [...Object.values(ownEnv), ...Object.values(databaseEnv)],
  };
}

function openEnv(secrets: Secrets, deployment: { id: string; env: Buffer | null }): Record<string, string> {
  if (deployment.env === null) return {};
  return JSON.parse(secrets.open(deployment.env, envAad(deployment.id)).toString("utf8")) as Record<string, string>;
}

/** What every container of a deployment is told about itself; wins over the project's own variables. */
function platformEnv(deployment: Deployment, project: Project, manifest: Manifest): Record<string, string> {
  return {
    PORT: String(manifestPort(manifest)),
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_SLUG: project.slug,
    SVC_CHANNEL: deployment.channel,
    SVC_DEPLOYMENT_ID: deployment.id,
    SVC_PUBLIC_URL: deployment.url,
    ...(deployment.git_sha !== null && { SVC_GIT_SHA: deployment.git_sha }),
  };
}
