// Judges links by Node's own cryptography, from the description of the format alone: shares no code with mailroom.
// Each line of input is "ACTION,TOKEN,CODE"; each line of output "valid" or "invalid", and the secret in hexadecimal.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createInterface } from 'node:readline'

const key = Buffer.from(process.env.MAILROOM_SECRET_KEY, 'hex')

for await (const line of createInterface({ input: process.stdin })) {
  const [action, token, code] = line.split(',')
  const bytes = Buffer.from(token, 'base64url')
  const secret = bytes.subarray(0, 32)
  const signature = bytes.subarray(32)
  const hmac = createHmac('sha256', key)
  hmac.update(action === 'recover' ? '/recover' : '/activate').update(secret)
  if (action === 'recover') hmac.update(code)
  const genuine = signature.length === 32 && timingSafeEqual(signature, hmac.digest())
  console.log(`${genuine ? 'valid' : 'invalid'} ${secret.toString('hex')}`)
}
