create role {role} login
