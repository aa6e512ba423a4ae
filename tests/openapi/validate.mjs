// SPDX-License-Identifier: Apache-2.0
// Reads an OpenAPI document from stdin and prints {"version", "valid", "errors"} as JSON.
import { text } from 'node:stream/consumers'
import { Validator } from '@seriousme/openapi-schema-validator'

const validator = new Validator()
const result = await validator.validate(JSON.parse(await text(process.stdin)))
console.log(JSON.stringify({ version: validator.version, valid: result.valid, errors: result.errors ?? [] }))
