import { deleteRegistryCredentialReply } from "@svc/proto";
import { argument, command, flag } from "../../command.ts";
import { confirmLoss, requireAnswerable } from "../../confirm.ts";
import { CliError } from "../../errors.ts";
import { registryHostOf } from "../../registry-host.ts";
import { getProject, projectFacts } from "../../target.ts";

export const registryRemove = command({
  name: "registry remove",
  summary: "Delete the credential for a registry",
  flags: { project: flag.project },
  arguments: { host: argument.required("host", "The registry; see `svc registry list`") },
  examples: ["svc registry remove ghcr.io", "svc registry remove ghcr.io --project shop --yes"],
  async run(context, { project: named, host: text }) {
    const host = registryHostOf(text);
    requireAnswerable(context, `This deletes the credential for ${host}.`);
    const { project } = await getProject(context, named);
    await confirmLoss(context, {
      loss: `This deletes the credential of ${project.slug} for ${host}; private images there can no longer be pulled.`,
      name: host,
    });
    const api = await context.api();
    await api
      .delete(`/projects/${project.id}/registry-credentials`, deleteRegistryCredentialReply, {
        body: { host, confirm: true },
      })
      .catch((thrown: unknown) => {
        throw thrown instanceof CliError && thrown.code === "CLOUD_NOT_FOUND"
          ? unknownHost(project.slug, host)
          : thrown;
      });
    return { project: projectFacts(project), host, deleted: true };
  },
  render: ({ host }, { paint }) => `${paint("green", "✓")} Deleted the credential for ${host}`,
});

const unknownHost = (slug: string, host: string): CliError =>
  new CliError("CLOUD_NOT_FOUND", `${slug} has no credential for ${host}`, {
    hint: `See which there are with \`svc registry list --project ${slug}\``,
  });
