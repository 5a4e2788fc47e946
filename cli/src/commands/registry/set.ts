import { limits, putRegistryCredentialReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { CliError, fromServerError, type ServerError } from "../../errors.ts";
import { registryHostOf } from "../../registry-host.ts";
import { readSecret } from "../../secret-input.ts";
import { getProject, projectFacts } from "../../target.ts";

export const registrySet = command({
  name: "registry set",
  summary: "Store or replace the credential for a registry",
  details:
    "The password or token is asked for, or read from stdin where nobody can be asked. It is stored encrypted and never shown again. Projects of type ociimage only.",
  flags: {
    project: flag.project,
    username: flag.text("--username <name>", "Who logs in to the registry"),
  },
  arguments: { host: argument.required("host", "The registry, as image references begin with it: ghcr.io") },
  examples: ["svc registry set ghcr.io --username ada", "svc registry set ghcr.io --username ada --project shop"],
  async run(context, { project: named, username, host: text }) {
    const host = registryHostOf(text);
    if (username === undefined || username === "")
      throw new CliError("CLI_INVALID_USAGE", "--username <name> is missing", {
        hint: `Say who logs in: \`svc registry set ${host} --username <name>\``,
      });
    const { project } = await getProject(context, named);
    if (project.type !== "ociimage")
      throw new CliError("CLI_INVALID_USAGE", `${project.slug} is of type ${project.type}, which pulls no images`, {
        hint: "Name a project of type ociimage with --project <slug>",
      });
    const secret = await readSecret(context, {
      question: `Password or token of ${username} at ${host}`,
      bytesMax: limits.registrySecretLengthMax,
      example: `svc registry set ${host} --username ${username} < token.txt`,
    });
    const api = await context.api();
    const { credential, rotated } = await api.put(
      `/projects/${project.id}/registry-credentials`,
      putRegistryCredentialReply,
      { body: { host, username, secret }, failure: refusalOf(host) },
    );
    const { configured, createdAt, updatedAt } = credential;
    return {
      project: projectFacts(project),
      credential: { host: credential.host, configured, createdAt, updatedAt },
      rotated,
    };
  },
  render: ({ credential, rotated }, { paint }) =>
    `${paint("green", "✓")} ${rotated ? "Replaced" : "Stored"} the credential for ${credential.host}`,
});

/** Elsewhere the code is about a manifest; here it is the host that was typed. */
const refusalOf = (host: string) => (error: ServerError) => {
  const usual = fromServerError(error);
  if (error.code !== "OCI_REFERENCE_INVALID") return usual;
  return new CliError(usual.code, usual.message, {
    hint: `Check the name; only registries on the public internet can be used: \`svc registry set ${host} --username <name>\``,
    server: error,
  });
};
