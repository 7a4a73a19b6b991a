import { verify } from "../../../verify.mjs";

export async function POST(request) {
  const isValid = verify(process.env.SECRET, request.headers, await request.arrayBuffer());
  return new Response(null, { status: isValid ? 204 : 401 });
}
