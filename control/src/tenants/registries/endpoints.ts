import {
  deleteRegistryCredentialInput,
  deleteRegistryCredentialReply,
  idParams,
  putRegistryCredentialInput,
  putRegistryCredentialReply,
  registryCredentialListReply,
} from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import type { Caller } from "../../http/caller.ts";
import { ApiError } from "../../http/errors.ts";
import type { Db } from "../../stores/db/pool.ts";
import { endpoint } from "../endpoint.ts";
import { getProject } from "../projects/store.ts";
import { admitCredential, type CredentialRefusal, confirmationRefusal, projectRefusal } from "./rules.ts";
import { deleteCredential, listCredentials, putCredential, type StoredCredential } from "./store.ts";

const path = "/projects/:id/registry-credentials";

const credentialView = ({ host, created_at, updated_at }: StoredCredential) => ({
  host,
  configured: true as const,
  createdAt: created_at.toISOString(),
  updatedAt: updated_at.toISOString(),
});

function throwIf(refusal: CredentialRefusal | null): void {
  if (refusal === null) return;
  const { code, message } = refusal;
  throw new ApiError(code, message === undefined ? {} : { message });
}

async function imageProject(db: Db, caller: Caller, id: string, options?: { lock: boolean }): Promise<{ id: string }> {
  const project = await getProject(db, caller, id, options);
  throwIf(projectRefusal(project.type));
  return project;
}

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "Registries that the project has a credential for.",
  params: idParams,
  reply: registryCredentialListReply,
  errors: ["VALIDATION"],
  async handle({ db }, { caller, params }) {
    const { id } = await imageProject(db, caller, params.id);
    return { credentials: (await listCredentials(db, id)).map(credentialView) };
  },
});

const put = endpoint({
  method: "PUT",
  path,
  access: { scope: "projects:write" },
  summary: "Set or rotate the credential of one registry. Deployments from then on use it.",
  params: idParams,
  body: putRegistryCredentialInput,
  reply: putRegistryCredentialReply,
  errors: ["VALIDATION", "OCI_REFERENCE_INVALID", "QUOTA_EXCEEDED"],
  async handle({ db, secrets, references, clock }, { caller, params, body, address }) {
    const { host, username, secret } = body;
    await imageProject(db, caller, params.id);
    const problem = await references.registryProblem(host);
    if (problem !== null) throw new ApiError("OCI_REFERENCE_INVALID", { message: problem });
    return db.transaction().execute(async (tx) => {
      // The lock keeps the count exact.
      const { id } = await imageProject(tx, caller, params.id, { lock: true });
      const admitted = admitCredential(
        (await listCredentials(tx, id)).map((each) => each.host),
        host,
      );
      if ("code" in admitted) throw new ApiError(admitted.code, admitted);
      const { rotates } = admitted;
      const stored = await putCredential(tx, secrets, { projectId: id, host, now: clock.now() }, { username, secret });
      const action = rotates ? "registry-credential.rotate" : "registry-credential.create";
      await recordAudit(tx, { caller, address, action, target: id, detail: { host } });
      return { credential: credentialView(stored), rotated: rotates };
    });
  },
});

const remove = endpoint({
  method: "DELETE",
  path,
  access: { scope: "projects:write" },
  summary: "Delete the credential of one registry. Needs confirm: true.",
  params: idParams,
  body: deleteRegistryCredentialInput,
  reply: deleteRegistryCredentialReply,
  errors: ["VALIDATION", "OCI_REFERENCE_INVALID", "DESTRUCTIVE_CONFIRMATION_REQUIRED"],
  handle: ({ db }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const { host, confirm } = body;
      const { id } = await imageProject(tx, caller, params.id, { lock: true });
      throwIf(confirmationRefusal(confirm));
      if (!(await deleteCredential(tx, id, host))) throw new ApiError("NOT_FOUND");
      await recordAudit(tx, { caller, address, action: "registry-credential.delete", target: id, detail: { host } });
      return { host };
    }),
});

export const registryCredentialEndpoints = [list, put, remove];
