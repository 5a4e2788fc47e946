import {
  createTokenInput,
  createTokenReply,
  deleteTokenReply,
  isTokenExpiry,
  tokenListReply,
  tokenParams,
} from "@svc/proto";
import { refuseLimited } from "../auth/limited.ts";
import { recordAudit } from "../http/audit.ts";
import { endpoint } from "../http/endpoint.ts";
import { ApiError } from "../http/errors.ts";
import { countOwnProjects, deleteToken, insertToken, listTokens, type Token } from "./store.ts";

const tokenView = ({ id, name, start, scopes, projectIds, expiresAt, createdAt }: Token) => ({
  id,
  name,
  start,
  scopes,
  projectIds,
  expiresAt: expiresAt?.toISOString() ?? null,
  createdAt: createdAt.toISOString(),
});

const create = endpoint({
  method: "POST",
  path: "/tokens",
  access: "session",
  summary: "Create an API key. The key itself is in this reply and nowhere else.",
  body: createTokenInput,
  status: 201,
  reply: createTokenReply,
  async handle({ db, now, newId }, { caller, body, address }) {
    const { name, expiresIn, scopes = null, projectIds = null } = body;
    if (expiresIn !== undefined && !isTokenExpiry(expiresIn)) throw new ApiError("TOKEN_CREATE_FAILED");
    const createdAt = now();
    const expiresAt = expiresIn === undefined ? null : new Date(createdAt.getTime() + expiresIn * 1000);
    return db.transaction().execute(async (tx) => {
      if (projectIds !== null && (await countOwnProjects(tx, caller.userId, projectIds)) !== projectIds.length) {
        throw new ApiError("VALIDATION", { message: "projectIds: names a project that is not yours" });
      }
      const token = await insertToken(tx, {
        id: newId(),
        userId: caller.userId,
        name,
        scopes,
        projectIds,
        expiresAt,
        createdAt,
      });
      await recordAudit(tx, {
        caller,
        address,
        action: "token.create",
        target: token.id,
        detail: { name, scopes, projectIds },
      });
      return { token: { ...tokenView(token), key: token.key } };
    });
  },
});

const list = endpoint({
  method: "GET",
  path: "/tokens",
  access: "full",
  summary: "The account's API keys, without the keys themselves.",
  reply: tokenListReply,
  async handle({ db }, { caller }) {
    refuseLimited(caller, "see or revoke other keys");
    const tokens = await listTokens(db, caller.userId);
    return {
      tokens: tokens.map((token) => ({ ...tokenView(token), lastUsedAt: token.lastUsedAt?.toISOString() ?? null })),
    };
  },
});

const remove = endpoint({
  method: "DELETE",
  path: "/tokens/:id",
  access: "full",
  summary: 'Revoke an API key; "self" is the one that makes the call.',
  params: tokenParams,
  reply: deleteTokenReply,
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const id = params.id === "self" ? caller.tokenId : params.id;
      if (id !== caller.tokenId) refuseLimited(caller, "see or revoke other keys");
      // A session is no key, so there is no "self" to revoke.
      if (id === null || !(await deleteToken(tx, caller.userId, id))) throw new ApiError("NOT_FOUND");
      await recordAudit(tx, { caller, address, action: "token.revoke", target: id });
      return { id };
    }),
});

export const tokenEndpoints = [create, list, remove];
