export type { ArtifactKind, PushedArtifact } from "./artifacts.ts";
export type { Content, PullOptions, PushOptions, Stored, TransferOptions } from "./blobs.ts";
export { digestOf } from "./digest.ts";
export { type DialledAddress, type Egress, lookupOf } from "./egress.ts";
export { EgressBlocked, MalformedManifest, RegistryError, type RegistryErrorCode } from "./errors.ts";
export {
  type Descriptor,
  type FoundManifest,
  imageManifestTypes,
  manifestBytesMax,
  type OciManifest,
  ociManifestType,
  type StoredManifest,
} from "./manifests.ts";
export { inPieces } from "./pieces.ts";
export { createRegistry, type Registry } from "./registry.ts";
export {
  type Access,
  BadTokenKey,
  checkTokenPair,
  createTokenSigner,
  type IssuedToken,
  isTokenPair,
  type TokenPair,
  type TokenSigner,
} from "./tokens.ts";
export type { RegistryOptions, TokenSource } from "./transport.ts";
